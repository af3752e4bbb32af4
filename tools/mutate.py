"""Change each constant of the policies a little, and see whether a test notices.

python tools/mutate.py                                  all policies, and what else bounds a turn
python tools/mutate.py hermes_nb/policies/retry.py      one module
python tools/mutate.py --list                           only say what would be changed

A number goes up and down, a bound loses or gains its own value, a default is flipped, a table loses a member; zeros and
ones inside of functions only count, and stay. It works on a copy of the tree, and each change is tried in a fork of a
warm process: the tests of that module run until one fails, those first that noticed earlier changes. What changes
nothing that can be seen is listed in SAME, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.util
import os
import resource
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    Table = ast.Tuple | ast.Set | ast.List | ast.Dict
    Change = tuple[ast.expr, str, str]
    """What is changed, the new text, and the change in words where the texts would be long."""

ROOT = Path(__file__).resolve().parent.parent

TESTS = {
    "logbook/guardfile": ("unit/policies", "scenarios/test_guard.py"),
    "logbook/store": ("unit/policies", "unit/logbook"),
    "policies/compression": ("unit/policies", "unit/compression", "conformance/test_parts_compression.py"),
    "policies/guard": ("unit/policies", "scenarios/test_guard.py"),
    "policies/guardrails": ("unit/policies", "unit/tools/test_guardrails.py"),
    "policies/limits": ("unit/policies", "conformance/test_loop_answers.py", "conformance/test_parts_turn.py"),
    "policies/numbers": ("unit/policies",),
    "policies/prices": ("conformance/test_parts_turn.py",),
    "policies/pruning": ("unit/compression",),
    "policies/recovery": (
        "unit/policies",
        "providers/test_openai_chat.py",
        "scenarios/test_retry_and_fallback.py",
        "conformance/test_loop_asking.py",
        "conformance/test_loop_answers.py",
    ),
    "policies/replies": ("conformance/test_loop_answers.py", "conformance/test_cases_wire.py"),
    "policies/retry": ("unit/policies", "conformance/test_loop_asking.py"),
    "policies/thinking": ("unit/policies",),
    "policies/tokens": ("unit/compression/test_tokens.py", "unit/compression/test_summarising.py"),
    "providers/anthropic_assembly": ("providers/test_anthropic.py", "providers/test_streams.py"),
    "providers/anthropic": ("providers/test_anthropic.py",),
    "providers/advice": ("providers/test_mixture.py",),
    "providers/calls": ("providers/test_calls.py", "providers/test_streams.py"),
    "providers/chat_assembly": ("providers/test_streams.py", "providers/test_openai_chat.py"),
    "providers/credentials": ("unit/policies", "providers/test_credentials.py"),
    "providers/error_bodies": ("providers/test_failures.py",),
    "providers/http": ("unit/policies", "providers/test_http.py"),
    "providers/limits": ("providers/test_failures.py",),
    "providers/mixture": ("unit/policies", "providers/test_mixture.py"),
    "providers/openai_chat": ("providers/test_openai_chat.py", "scenarios/test_strict_servers.py"),
    "providers/remote": (
        "unit/policies",
        "providers/test_openai_chat.py",
        "providers/test_http.py",
        "providers/test_streams.py",
    ),
    "providers/signs": ("providers/test_signs.py", "providers/test_failures.py"),
    "providers/sse": ("providers/test_streams.py", "providers/test_http.py"),
    "providers/usage": ("providers/test_streams.py", "providers/test_openai_chat.py", "providers/test_anthropic.py"),
    "providers/waits": ("providers/test_waits.py",),
    "tools/batch": ("unit/tools/test_toolbox.py",),
    "tools/checkpoints": ("unit/tools/test_checkpoints.py",),
    "tools/definition": ("unit/tools/test_definition.py", "unit/tools/test_toolbox.py"),
    "tools/finite": ("unit/tools/test_finite.py",),
    "tools/loops": ("unit/policies", "unit/tools/test_toolbox.py"),
    "tools/mcp": ("unit/policies", "unit/tools/test_mcp.py"),
    "tools/names": ("unit/tools/test_names.py",),
    "tools/results": ("unit/policies", "unit/tools/test_results.py"),
    "tools/schema": ("unit/tools/test_definition.py",),
    "tools/stored": ("unit/tools/test_results.py",),
    "tools/toolbox": ("unit/policies", "unit/tools/test_toolbox.py"),
    "turn/asking": (
        "scenarios/test_retry_and_fallback.py",
        "scenarios/test_guard.py",
        "conformance/test_loop_asking.py",
        "conformance/test_loop_answers.py",
    ),
    "turn/chain": ("unit/policies", "conformance/test_loop_asking.py"),
    "turn/compressing": ("unit/compression", "conformance/test_parts_compression.py"),
    "turn/context_files": ("scenarios/test_system_prompt.py",),
    "turn/prompting": ("scenarios/test_strict_servers.py", "conformance/test_parts_rest.py"),
    "turn/room": ("unit/compression",),
    "turn/steps": (
        "unit/policies",
        "conformance/test_loop_answers.py",
        "conformance/test_loop_asking.py",
        "scenarios/test_ceilings.py",
        "scenarios/test_sub_agents.py",
    ),
    "turn/summarising": ("unit/compression",),
    "vocabulary/budget": ("unit/policies", "conformance/test_loop_answers.py"),
}
"""For each module the tests that must notice, the likeliest first."""


SAME = {
    "logbook/guardfile": {"if end > now": "no limit ends at the very nanosecond"},
    "logbook/store": {"time.monotonic() < self._next_try": "nobody writes at the very nanosecond"},
    "policies/guardrails": {"open: int = 0": "a result ends a batch that nobody began, whether none or one is open"},
    "providers/credentials": {
        "(first := self._entries[0]).until <= (now :=": "the longer way finds the same key",
        "anyio.sleep(0.02)": "how often a turn looks whether another one has refreshed the key",
    },
    "providers/http": {
        "(clock := time.monotonic()) < self._next": "no piece comes at the very nanosecond",
        "self._next = clock + self._timeouts.idle / 20": "how often the end of the patience is moved",
        "now() >= self.end": "no patience is looked at at the very nanosecond",
    },
    "providers/remote": {"if len(found) >= ERROR_BODY": "one more piece is read, and not kept"},
    "tools/batch": {"slot.options.delegate and now < self._lands": "no call begins at the very nanosecond"},
    "tools/finite": {"_LEAVES = frozenset(": "a value that holds nothing is left as it is, if not so quickly"},
    "tools/stored": {"characters: int = 8_000) -> str: [0 -> -1]": "nothing stands before the first character"},
    "turn/compressing": {"time.monotonic() >= self.state.quiet_until": "no summary is due at the very nanosecond"},
}
"""Lines of which no change can be noticed, or not the one in brackets, and why; `make mutate` says so when one is
noticed after all."""

WARM = ("anyio", "httpx", "hypothesis", "opentelemetry.sdk.trace", "pandas", "pyarrow", "pydantic", "scipy")
"""What nearly every test imports; loaded once."""

BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
TOLD, NOTICED = ".told", ".noticed"
WARNED = "ignore:Module already imported"
EXACT = 20  # whole numbers up to this change by one, all others by a tenth


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes of an expression in the module, what stands there instead, and the change in words."""

    line: int
    begin: int
    end: int
    new: str
    words: str

    def __str__(self) -> str:
        return f"{self.line}: {self.words}"


class Noticed:
    """Remembers over the forks which tests have failed, and runs those first, the last one before all."""

    def __init__(self, tree: Path) -> None:
        self.path = tree / NOTICED

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Put the tests in order, after everybody else did."""
        before = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        last = {name: place for place, name in enumerate(before)}
        session.items.sort(key=lambda item: -last.get(item.nodeid, -1))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take down a test that fails."""
        if report.failed:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


# --------------------------------------------------------------------------------------- what is changed


def mutants(source: str) -> list[Mutant]:
    """All changes of a module, in the order of their places."""
    lines = source.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    found = []
    for node, new, words in _changes(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(node.lineno, begin, end, new, words or f"{ast.unparse(node)} -> {new}"))
    return sorted(found, key=lambda mutant: mutant.begin)


def changed(source: str, mutant: Mutant) -> str:
    """The module with one change."""
    raw = source.encode()
    return (raw[: mutant.begin] + mutant.new.encode() + raw[mutant.end :]).decode()


def _changes(tree: ast.Module) -> Iterator[Change]:
    defaults = list(_defaults(tree))
    still = {id(node) for part in _no_decisions(tree, defaults) for node in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in still:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            yield from ((node, text, "") for text in _numbers(node.value))
        elif isinstance(node, ast.Compare):
            yield from ((node, text, "") for text in _bounds(node))
    for default in defaults:
        if isinstance(default, ast.Constant) and isinstance(default.value, bool):
            yield default, repr(not default.value), ""
    for table in _tables(tree):
        yield from _shorter(table)


def _no_decisions(tree: ast.Module, defaults: list[ast.expr]) -> Iterator[ast.AST]:
    """Types, places in sequences, texts, and numbers that only count."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            yield node.slice
        elif isinstance(node, ast.JoinedStr):
            yield node
        elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            numbers = (n for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value in (0, 1))
            yield from (n for n in numbers if n not in defaults)


def _numbers(value: float) -> Iterator[str]:
    step = 1 if isinstance(value, int) and value <= EXACT else value / 10 or 0.1
    yield from (f"{type(value)(value + change):.12g}" for change in (step, -step))


def _bounds(node: ast.Compare) -> Iterator[str]:
    for place, operator in enumerate(node.ops):
        if other := BOUNDS.get(type(operator)):
            ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
            yield ast.unparse(ast.Compare(node.left, ops, node.comparators))


def _defaults(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not _only_typed(node):
            yield from (default for default in (*node.args.defaults, *node.args.kw_defaults) if default)
        elif isinstance(node, ast.ClassDef):
            yield from (line.value for line in node.body if isinstance(line, ast.AnnAssign) and line.value)


def _only_typed(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    return not isinstance(node, ast.Lambda) and any(ast.unparse(name) == "overload" for name in node.decorator_list)


def _tables(tree: ast.Module) -> Iterator[Table]:
    """Collections among the module's constants; not those that are unpacked, nor types."""
    for line in tree.body:
        named = isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name)
        if named or (isinstance(line, ast.AnnAssign) and "TypeAlias" not in ast.unparse(line.annotation)):
            assert isinstance(line, ast.Assign | ast.AnnAssign)
            values = list(ast.walk(line.value or ast.Constant(None)))
            types = {id(node) for value in values if isinstance(value, ast.Subscript) for node in ast.walk(value.slice)}
            tables = (node for node in values if isinstance(node, ast.Tuple | ast.Set | ast.List | ast.Dict))
            yield from (node for node in tables if id(node) not in types)


def _shorter(table: Table) -> Iterator[Change]:
    """The collection without each of its members."""
    members = [key or ast.Constant("**") for key in table.keys] if isinstance(table, ast.Dict) else table.elts
    for place, member in enumerate(members):
        fewer = copy.deepcopy(table)
        if isinstance(fewer, ast.Dict):
            del fewer.keys[place], fewer.values[place]
        else:
            del fewer.elts[place]
        yield table, ast.unparse(fewer), f"without {ast.unparse(member)}"


# --------------------------------------------------------------------------------------- who notices


def passes(tree: Path, tests: tuple[str, ...], seconds: int = resource.RLIM_INFINITY) -> bool:
    """Whether these tests pass in that tree; in a fork, so that nothing has to be imported anew but the tree itself.

    What goes on for ever fails after so many seconds of a processor.
    """
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        code = _test(tree, tests)
    finally:
        os._exit(code)  # nothing of the parent is unwound here


def _test(tree: Path, tests: tuple[str, ...]) -> int:
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    told = os.open(tree / TOLD, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(told, 1)
    os.dup2(told, 2)
    settings.register_profile("mutate", phases=(Phase.explicit, Phase.generate), database=None, derandomize=True)
    settings.load_profile("mutate")  # a failure is enough; its smallest form is not looked for
    quick = ("-x", "-q", "--timeout=30", "-m", "not slow and not local_model", "-W", WARNED)
    unused = ("-p", "no:cacheprovider", "-p", "no:nbmake")  # the latter takes longer to import than most tests
    return pytest.main([*quick, *unused, *(f"tests/{test}" for test in tests)], plugins=[Noticed(tree)])


def tried(tree: Path, module: str) -> tuple[int, int]:
    """Try the changes of a module; how many there were, and how many of them fared otherwise than they should."""
    path, tests = tree / f"hermes_nb/{module}.py", TESTS[module]
    source = path.read_text(encoding="utf-8")
    before = _spent()
    if not passes(tree, tests):
        sys.exit(f"{(tree / TOLD).read_text()}\nThe tests of {module} fail as they are.")
    found, wrong, enough = mutants(source), 0, round(10 + 2 * (_spent() - before))
    for mutant in found:
        _write(path, changed(source, mutant))
        survived, same = passes(tree, tests, enough), _is_same(module, source, mutant)
        if survived != same:
            wrong += 1
            print(
                f"  {'survived' if survived else 'noticed, so not the same:'}  hermes_nb/{module}.py:{mutant}",
                flush=True,
            )
    _write(path, source)
    return len(found), wrong


def shown(source: str, mutant: Mutant) -> str:
    """The line of a change, and the change in brackets."""
    return f"{source.splitlines()[mutant.line - 1]} [{mutant.words}]"


def _is_same(module: str, source: str, mutant: Mutant) -> bool:
    return any(part in shown(source, mutant) for part in SAME.get(module, ()))


def _spent() -> float:
    """Seconds of a processor that the forks have used."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _write(path: Path, source: str) -> None:
    """Write a module, and forget what was compiled of it: two versions of one second and one size look the same."""
    path.write_text(source, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def main() -> int:
    """Try all changes; 1 if one survived that should not have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", type=Path, help="modules to change; all that are known if left out")
    parser.add_argument("--list", action="store_true", help="only say what would be changed")
    asked = parser.parse_args()
    modules = [path.resolve().relative_to(ROOT / "hermes_nb").with_suffix("").as_posix() for path in asked.modules]
    if unknown := set(modules) - TESTS.keys():
        parser.error(f"no tests are known for {', '.join(sorted(unknown))}; add them to TESTS")
    return _listed(modules or list(TESTS)) if asked.list else _try_all(modules or list(TESTS))


def _listed(modules: list[str]) -> int:
    for module in modules:
        source = (ROOT / f"hermes_nb/{module}.py").read_text(encoding="utf-8")
        for mutant in mutants(source):
            print(f"hermes_nb/{module}.py:{mutant}")
    return 0


def _try_all(modules: list[str]) -> int:
    for name in WARM:
        importlib.import_module(name)
    alive = total = 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(".*", "site", "dist", "notebooks"))
        for module in modules:
            began = time.monotonic()
            made, wrong = tried(tree, module)
            total, alive = total + made, alive + wrong
            print(f"{module}: {made} changes, {wrong} to look at, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{alive} of {total} changes are to be looked at" if alive else f"all {total} changes were noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
