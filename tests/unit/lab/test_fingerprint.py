"""Fingerprints: what they see, what they do not show, and that every process makes the same."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

import pytest

import hermes_nb as hn
from hermes_nb.lab.fingerprint import described, differences, fingerprint
from hermes_nb.testing import say, script
from tests.support import sweeping

KEY = "sk-proj-0123456789abcdef"


def helper() -> int:
    return 1


def counting(city: str, unit: str = "people") -> int:
    """Counts."""
    return helper() if city in {"Lyon", "Lille"} else 0


def made(**settings) -> hn.Agent:
    model = hn.OpenAIChat("m", base_url="http://127.0.0.1:1/v1", api_key=KEY, headers={"X-Team-Token": "abcdefgh"})
    return hn.Agent(model, **({"tools": [counting], "instructions": f"Use {KEY}."} | settings))


def test_every_process_makes_the_same_and_no_key_is_in_it():
    agent = sweeping.agent("http://127.0.0.1:1")
    code = (
        "from tests.support import sweeping; from hermes_nb.lab.fingerprint import described, fingerprint;"
        "import json; print(json.dumps(described(sweeping.agent('http://127.0.0.1:1')), sort_keys=True))"
    )
    for seed in ("1", "2"):  # sets have another order
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert json.loads(done.stdout) == described(agent)
    told = json.dumps(described(made()))
    assert KEY not in told
    assert "abcdefgh" not in told
    assert " at 0x" not in told
    assert fingerprint(described(made())) == fingerprint(described(made()))
    assert "sk-sweep" not in json.dumps(described(agent))


def test_another_key_or_name_is_the_same_agent():
    other = hn.OpenAIChat(
        "m", base_url="http://127.0.0.1:1/v1", api_key="sk-other-9876543210", headers={"X-Team-Token": "zyxwvuts"}
    )

    same = made(instructions="", name="x").with_(models=other)

    assert differences(described(made(instructions="")), described(same)) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("models.0.model", {"models": hn.OpenAIChat("other", base_url="http://127.0.0.1:1/v1", api_key=KEY)}),
        ("models.0.base_url", {"models": hn.OpenAIChat("m", base_url="http://127.0.0.1:1/v2", api_key=KEY)}),
        ("models.0.kind", {"models": hn.Anthropic("m", base_url="http://127.0.0.1:1/v1", api_key=KEY)}),
        ("models.1.model", {"models": [*made().models, script(say("x"))]}),
        ("instructions", {"instructions": "Other."}),
        ("budget", {"budget": 7}),
        ("retry.attempts", {"retry": hn.Retry(attempts=7)}),
        ("compression.passes", {"compression": hn.Compression(passes=1)}),
        ("grace.enabled", {"grace": None}),
        ("ceiling.price", {"ceiling": hn.Ceiling(cost_usd=1, price=lambda provider, model, usage: 0.1)}),
        ("budget_notice.share", {"budget_notice": hn.BudgetNotice()}),
        ("faults.timeout", {"faults": hn.Faults(timeout=0.5)}),
        ("toolbox.workers", {"tools": hn.Toolbox([counting], workers=2)}),
        ("tools.counting.options.free", {"tools": [hn.tool(counting, free=True)]}),
        ("tools.counting.description", {"tools": [hn.tool(counting, description="Other.")]}),
        ("tools.a.agent.instructions", {"tools": [made(instructions="x", name="a").as_tool()]}),
    ],
)
def test_it_sees(name, change):
    changed = hn.Agent(**{"models": made().models, "tools": [counting], "instructions": f"Use {KEY}."} | change)
    lines = differences(described(made()), described(changed))

    assert any(line.startswith(f"{name} was ") for line in lines), lines
    assert fingerprint(described(made())) != fingerprint(described(changed))
    assert KEY not in str(lines)


def compiled(text: str):
    names: dict = {"__name__": "somewhere"}
    exec(text, names)
    return names["tool"]


def told(function) -> dict:
    return described(hn.Agent(script(say("x")), tools=[function]))


ONE = "def helper():\n    return 1\ndef tool(n: int = 1) -> int:\n    'Counts.'\n    return helper() + n\n"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (ONE.replace("    return helper", "    # a word\n\n    return helper"), True),
        (ONE.replace("helper() + n", "helper() - n"), False),
        (ONE.replace("return 1", "return 2"), False),
        (ONE.replace("n: int = 1", "n: int = 2"), False),
    ],
)
def test_a_tool_is_known_by_what_it_does(text, same):
    assert (differences(told(compiled(ONE)), told(compiled(text))) == []) == same


def test_what_a_closure_holds_and_a_partial_fixes_counts():
    def making(value):
        def tool() -> str:
            """Says it."""
            return str(value)

        return tool

    def said(value: int, more: int) -> int:
        """Says it."""
        return value + more

    assert told(making("a")) != told(making("b"))
    assert told(making(helper)) != told(making(making))
    partials = [described(hn.Agent(script(functools.partial(said, number)))) for number in (1, 1, 2)]
    assert partials[0] == partials[1] != partials[2]


def test_objects_that_can_be_called_and_those_that_cannot_are_told_without_their_address():
    class Summary:
        def __call__(self, messages):
            return messages[:1]

    class Store:
        def read(self):
            return {}

        def write(self, identity, until):
            """Nothing."""

    guard = hn.RateGuard(store=Store(), shared=False)
    agent = hn.Agent(script(say("x")), compression=hn.Compression(compressor=Summary()), guard=guard)
    settings = described(agent)

    assert "Summary (code" in settings["compression.compressor"]
    assert settings["guard.store"].endswith("Store")
    assert " at 0x" not in json.dumps(settings)


def test_the_code_of_another_python_is_not_compared():
    old = {"f": "count (code 3.9-00ff)", "g": "count (code 3.9-00ff)"}

    assert differences(old, {"f": "count (code 3.11-aa00)", "g": "other (code 3.11-00ff)"}) == [
        "g was 'count (code 3.9-00ff)', is 'other (code 3.11-00ff)'"
    ]
