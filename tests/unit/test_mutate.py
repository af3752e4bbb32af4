"""What `make mutate` changes, and what it leaves."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tools.mutate import ROOT, SAME, TESTS, changed, mutants, shown

SOURCE = textwrap.dedent('''
    """A policy of 3 words."""
    LIMIT = 100
    TAGS = ("a", "b")
    Bounds: TypeAlias = tuple[float, float]
    Kind = Literal["a", "b"]

    class Policy:
        share: float = 0.5
        enabled: bool = True

        def allows(self, count: int = 1) -> bool:
            """At most 5."""
            rest = self.rows[2] + 1
            return count <= 7 and f"{count:>4}"
''')


def test_numbers_bounds_defaults_and_members_are_changed_and_nothing_else():
    assert [mutant.words for mutant in mutants(SOURCE)] == [
        "100 -> 110", "100 -> 90", "without 'a'", "without 'b'", "0.5 -> 0.55", "0.5 -> 0.45", "True -> False",
        "1 -> 2", "1 -> 0", "count <= 7 -> count < 7", "7 -> 8", "7 -> 6",
    ]  # fmt: skip


def test_each_change_is_one_change_of_a_module_that_can_be_read():
    for mutant in mutants(SOURCE):
        new = changed(SOURCE, mutant)
        ast.parse(new)
        assert new != SOURCE
        assert len(new.splitlines()) == len(SOURCE.splitlines())


@pytest.mark.parametrize("module", TESTS)
def test_each_module_and_its_tests_are_there(module):
    assert (ROOT / f"hermes_nb/{module}.py").exists()
    assert all((ROOT / "tests" / test).exists() for test in TESTS[module])


def test_every_policy_is_tried():
    policies = {path.stem for path in (ROOT / "hermes_nb/policies").glob("[a-z]*.py")}
    assert {f"policies/{name}" for name in policies} <= TESTS.keys()


@pytest.mark.parametrize(("module", "part"), [(module, part) for module in SAME for part in SAME[module]])
def test_each_line_of_which_no_change_can_be_noticed_is_still_there(module, part):
    source = (ROOT / f"hermes_nb/{module}.py").read_text(encoding="utf-8")
    assert any(part in shown(source, mutant) for mutant in mutants(source))
    assert module in TESTS
