"""Write the golden traces in `telemetry/golden/`: real turns of scripted models, with stable ids and times.

Called without arguments it writes them; with `--check` it says which differ, and fails if any does. What changes from
run to run (ids, times, waits, the prompt with its date) is replaced, and the settings, which are the defaults, are left
out; everything else is as a capture writes it.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, no_waiting, say, script

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "telemetry" / "golden"

START = 1_767_225_600_000_000_000  # 2026-01-01, in nanoseconds
STEP = 1_000_000
WAITS = {"hermes.retry.wait", "hermes.retry.waited", "hermes.attempt.backoff", "gen_ai.response.time_to_first_chunk"}
RESOURCE = {"service.name", "hermes.semconv.genai", "openinference.project.name"}
IDS = {"hermes.turn.id", "hermes.parent_turn.id", "hermes.tool.child_turn.id", "gen_ai.conversation.id", "session.id",
       "gen_ai.tool.call.id", "hermes.budget.reason"}  # fmt: skip


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


def plain() -> hn.Agent:
    """Two parallel-looking calls of one reply, then the answer."""
    cities = calls(call("population", city="Lyon"), call("population", city="Lille"))
    usage = hn.Usage(220, 12, cache_read_tokens=128, reasoning_tokens=4)
    return hn.Agent(script(cities, say("Lyon, by 286,000.", usage=usage)), tools=[population], budget=8)


def resilience() -> hn.Agent:
    """A retry, a fallback, an overflow with its compression and refund, a failed tool, the grace call."""
    first = script(fails("server_error"), fails("auth"), name="a", model="m1")
    second = script(
        call("population", city="Lyon"),
        fails("context_overflow", limit=4_000),
        call("population", city="Rome"),
        say("Out of budget."),
        name="b",
        model="m2",
    )
    compression = hn.Compression(compressor=lambda messages: [m for m in messages if m.role == "user"][-1:])
    return hn.Agent([first, second], tools=[population], budget=2, compression=compression)


def sub_agent() -> hn.Agent:
    """An agent that asks another one."""
    searcher = hn.Agent(script(call("population", city="Lille"), say("236,000."), model="m2"), tools=[population],
                        name="searcher")  # fmt: skip
    return hn.Agent(script(call("searcher", task="Find Lille."), say("Lille has 236,000.")), tools=[searcher.as_tool()],
                    name="lead")  # fmt: skip


def failed() -> hn.Agent:
    """A turn that ends by a failure."""
    return hn.Agent(script(fails("server_error", times=9)), budget=2)


TRACES: dict[str, tuple[Callable[[], hn.Agent], str]] = {
    "plain": (plain, "full"),
    "resilience": (resilience, "none"),
    "sub_agent": (sub_agent, "none"),
    "failed": (failed, "none"),
}


def record(name: str) -> str:
    """The text of one golden trace."""
    make, content = TRACES[name]
    long = [{"role": "user", "content": "word " * 8000}, {"role": "assistant", "content": "word " * 8000}]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "turns.jsonl"
        with hn.capture(path, content=content), no_waiting():  # type: ignore[arg-type]  # a literal of the table
            make().run("Which is larger?", history=long if name == "resilience" else (), session=False)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    first = 1000 * (1 + list(TRACES).index(name))
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in Stable(lines, first).lines())


class Stable:
    """Lines of a capture with ids and times that are the same in every run.

    Args:
        lines: As the capture wrote them.
        first: The first number of the ids, so that two traces share none.
    """

    def __init__(self, lines: list[dict[str, Any]], first: int) -> None:
        self._lines = lines
        self._first = first
        self._names: dict[str, str] = {}
        times = {span[key] for span in self._spans() for key in ("startTimeUnixNano", "endTimeUnixNano")}
        times |= {event["timeUnixNano"] for span in self._spans() for event in span.get("events", ())}
        self._order = sorted(times, key=int)

    def _spans(self) -> list[dict[str, Any]]:
        return [
            span
            for line in self._lines
            for resource in line["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def lines(self) -> list[dict[str, Any]]:
        """The lines."""
        for line in self._lines:
            for resource in line["resourceSpans"]:
                kept = {"service.name", "hermes.semconv.genai", "openinference.project.name"}
                given = resource["resource"]["attributes"]
                resource["resource"]["attributes"] = sorted(
                    (a for a in given if a["key"] in kept), key=lambda a: a["key"]
                )
                for scope in resource["scopeSpans"]:
                    scope["scope"] = {"name": scope["scope"]["name"]}
        for span in self._spans():
            self._settle(span)
        return self._lines

    def _settle(self, span: dict[str, Any]) -> None:
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            span[key] = self._time(span[key])
        for item in (span, *span.get("links", ())):
            self._rename(item, "traceId", 32)
            self._rename(item, "spanId", 16)
        self._rename(span, "parentSpanId", 16)
        self._attributes(span)
        for event in span.get("events", ()):
            event["timeUnixNano"] = self._time(event["timeUnixNano"])
            self._attributes(event)
        for link in span.get("links", ()):
            self._attributes(link)

    def _number(self) -> int:
        return self._first + len(self._names)

    def _time(self, at: str) -> str:
        return str(START + self._order.index(at) * STEP)

    def _rename(self, item: dict[str, Any], key: str, digits: int) -> None:
        if item.get(key):
            item[key] = self._names.setdefault(item[key], f"{self._number():0{digits}x}")

    def _attributes(self, item: dict[str, Any]) -> None:
        given = [a for a in item.get("attributes", ()) if not a["key"].startswith("hermes.setting.")]
        for attribute in given:
            key, value = attribute["key"], attribute["value"]
            if key in WAITS and "doubleValue" in value:
                value["doubleValue"] = 0.0
            elif "stringValue" in value:
                value["stringValue"] = self._text(key, value["stringValue"])
        if "attributes" in item:
            item["attributes"] = sorted(given, key=lambda attribute: attribute["key"])

    def _text(self, key: str, text: str) -> str:
        if key == "gen_ai.system_instructions":
            return '[{"type":"text","content":"(the system prompt)"}]'
        if key in IDS and not text.isidentifier():
            return self._names.setdefault(text, f"id-{self._number()}")
        named = r"call_[0-9a-f]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
        text = re.sub(r"golden\.py:\d+", "golden.py", text)
        return re.sub(named, lambda m: self._names.setdefault(m.group(), f"id-{self._number()}"), text)


def main(arguments: list[str] | None = None) -> int:
    """Write the traces, or check them; 1 if a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a trace would change")
    check = parser.parse_args(arguments).check
    different = 0
    for name in TRACES:
        path, text = GOLDEN / f"{name}.jsonl", record(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            different += 1
            print(f"{'differs' if check else 'wrote'}: {path.relative_to(ROOT)}")
            if not check:
                path.write_text(text, encoding="utf-8")
    return int(check and bool(different))


if __name__ == "__main__":
    raise SystemExit(main())
