"""Two turns side by side: where they part, and how each iteration went."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes_nb.traces import Trace

    class Traced(Protocol):
        """A run, or its result."""

        @property
        def trace(self) -> Trace:
            """How it went."""


SHOWN = 300
"""Characters of a text that a cell shows."""

COLUMNS = (
    "iteration_a", "iteration_b", "same", "calls_a", "calls_b", "text_a", "text_b", "outcome_a", "outcome_b",
    "model_a", "model_b", "input_tokens_a", "input_tokens_b", "output_tokens_a", "output_tokens_b", "seconds_a",
    "seconds_b",
)  # fmt: skip


@dataclass(frozen=True)
class Called:
    """One call: what was asked, and what came of it."""

    name: str
    arguments: str
    result: str

    def __str__(self) -> str:
        return f"{self.name}({self.arguments})"


@dataclass(frozen=True)
class Pass:
    """One iteration, as far as two turns can be compared by it."""

    iteration: int
    outcome: str
    text: str
    calls: tuple[Called, ...]
    model: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float

    @property
    def decided(self) -> tuple[Any, ...]:
        """What the model decided."""
        return self.text, tuple((call.name, call.arguments) for call in self.calls)


@dataclass(frozen=True)
class Divergence:
    """Where two turns part.

    Attributes:
        iteration: The iteration, from 1; 0 for the prompt.
        what: `prompt`, `text`, `call` (another tool, or none), `arguments`, `result`, `outcome`, or `end`: one of the
            turns is over.
        call: The number of the call in the reply, from 1; 0 where it is none.
        a: What the first turn has there.
        b: What the second turn has there.
    """

    iteration: int
    what: str
    call: int
    a: str
    b: str

    def __str__(self) -> str:
        """One sentence."""
        where = f"iteration {self.iteration}" + (f", call {self.call}" if self.call else "")
        return f"{where}, {self.what}: {_short(self.a)!r} against {_short(self.b)!r}"


@dataclass(frozen=True)
class Comparison:
    """Two turns compared; made by `hermes_nb.compare`.

    Attributes:
        divergence: The first difference; None where the turns are the same.
        pairs: The iterations side by side; None where one turn has no counterpart.
    """

    divergence: Divergence | None
    pairs: tuple[tuple[Pass | None, Pass | None], ...]

    @property
    def same(self) -> bool:
        """Whether the turns went the same way; times and tokens are not looked at."""
        return self.divergence is None

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each pair of iterations."""
        rows = [
            {"same": a is not None and b is not None and _difference(a, b) is None}
            | _columns(a, "a")
            | _columns(b, "b")
            for a, b in self.pairs
        ]
        kinds = dict.fromkeys(("iteration_a", "iteration_b"), "Int64") | dict.fromkeys(COLUMNS[11:15], "Int64")
        return pd.DataFrame(rows, columns=list(COLUMNS)).astype(kinds)

    def __repr__(self) -> str:
        """The divergence and the iterations in words."""
        head = f"first divergence: {self.divergence}" if self.divergence else "the turns went the same way"
        return "\n".join([head, *(f"{_mark(a, b)} {_line(a):<50} | {_line(b)}" for a, b in self.pairs)])

    def _repr_html_(self) -> str:
        head = f"First divergence: {self.divergence}" if self.divergence else "The turns went the same way."
        rows = "".join(
            f"<tr><td>{_mark(a, b)}</td><td style='text-align:left'>{_cell(a)}</td>"
            f"<td style='text-align:left'>{_cell(b)}</td></tr>"
            for a, b in self.pairs
        )
        return f"<p>{escape(head)}</p><table><tr><th></th><th>a</th><th>b</th></tr>{rows}</table>"


def compare(a: Trace | Traced, b: Trace | Traced) -> Comparison:
    """Lay two turns side by side, and find where they part.

    Args:
        a: A trace, a run, or a result.
        b: Another one.

    Raises:
        ConfigurationError: One of them is none of these.
    """
    one, other = _trace(a), _trace(b)
    passes, others = _passes(one), _passes(other)
    return Comparison(_divergence(one, other, passes, others), tuple(_aligned(passes, others)))


def _trace(given: Any) -> Trace:
    trace = given if hasattr(given, "iterations_df") and hasattr(given, "turn_id") else getattr(given, "trace", None)
    if trace is None:
        msg = f"compare() takes traces, runs or results, not {given!r}"
        raise ConfigurationError(msg)
    found: Trace = trace
    return found


# ------------------------------------------------------------------------------------------- reading


def _passes(trace: Trace) -> list[Pass]:
    """The iterations of the turn itself, sub-agents left out."""
    iterations, tools, messages = (
        frame[frame["turn_id"] == trace.turn_id]
        for frame in (trace.iterations_df(), trace.tool_calls_df(), trace.messages_df())
    )
    said = messages[(messages["role"] == "assistant") & (messages["part_type"] == "text")]
    return [
        Pass(
            iteration=int(row["iteration"]),
            outcome=_text(row["outcome"]),
            text="\n".join(map(_text, said[said["iteration"] == row["iteration"]]["content"])),
            calls=tuple(map(_called, tools[tools["iteration"] == row["iteration"]].to_dict("records"))),
            model=f"{_text(row['provider'])}:{_text(row['model'])}",
            input_tokens=_number(row["input_tokens"]),
            output_tokens=_number(row["output_tokens"]),
            seconds=row["duration"].total_seconds(),
        )
        for row in iterations.to_dict("records")
    ]


def _called(row: dict[Any, Any]) -> Called:
    return Called(_text(row["tool_name"]), _canonical(_text(row["arguments_json"])), _text(row["result"]))


def _canonical(arguments: str) -> str:
    """The arguments without what makes no difference: spaces, and the order of names."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _number(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _prompt(trace: Trace) -> str:
    turns = trace.turns_df()
    own = turns[turns["turn_id"] == trace.turn_id]
    return _text(own["user_message"].iloc[0]) if len(own) else ""


# ------------------------------------------------------------------------------------------- comparing


def _divergence(one: Trace, other: Trace, passes: list[Pass], others: list[Pass]) -> Divergence | None:
    if (a := _prompt(one)) != (b := _prompt(other)):
        return Divergence(0, "prompt", 0, a, b)
    for a_pass, b_pass in zip(passes, others, strict=False):
        if (found := _difference(a_pass, b_pass)) is not None:
            return found
    if len(passes) == len(others):
        return None
    next_one = min(len(passes), len(others))
    told = [_line(side[next_one]) if next_one < len(side) else "the turn is over" for side in (passes, others)]
    return Divergence(next_one + 1, "end", 0, *told)


def _difference(a: Pass, b: Pass) -> Divergence | None:
    """The first difference of two iterations, in the order in which things happen.

    Where one of them calls tools and the other answers, that is the difference, and not what they wrote beside it.
    """
    if a.text != b.text and bool(a.calls) == bool(b.calls):
        return Divergence(a.iteration, "text", 0, a.text, b.text)
    for number, (call, other) in enumerate(zip_longest(a.calls, b.calls), 1):
        if call is None or other is None or call.name != other.name:
            return Divergence(a.iteration, "call", number, str(call or "no call"), str(other or "no call"))
        if call.arguments != other.arguments:
            return Divergence(a.iteration, "arguments", number, call.arguments, other.arguments)
    for number, (call, other) in enumerate(zip(a.calls, b.calls, strict=True), 1):
        if call.result != other.result:
            return Divergence(a.iteration, "result", number, call.result, other.result)
    return Divergence(a.iteration, "outcome", 0, a.outcome, b.outcome) if a.outcome != b.outcome else None


def _aligned(a: Sequence[Pass], b: Sequence[Pass]) -> Iterator[tuple[Pass | None, Pass | None]]:
    """Equal decisions side by side, also where one turn took a step more."""
    matcher = SequenceMatcher(None, [one.decided for one in a], [one.decided for one in b], autojunk=False)
    for _, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        yield from zip_longest(a[a_from:a_to], b[b_from:b_to])


# ------------------------------------------------------------------------------------------- showing


def _columns(one: Pass | None, side: str) -> dict[str, Any]:
    if one is None:
        return {}
    values = vars(one) | {"calls": "; ".join(map(str, one.calls))}
    return {f"{name}_{side}": value for name, value in values.items()}


def _mark(a: Pass | None, b: Pass | None) -> str:
    if a is None or b is None:
        return "+" if a is None else "-"
    return "≠" if _difference(a, b) else "="


def _line(one: Pass | None) -> str:
    if one is None:
        return ""
    return _short(f"{one.iteration}  {'; '.join(map(str, one.calls)) or one.text or one.outcome}", 48).replace(
        "\n", " "
    )


def _cell(one: Pass | None) -> str:
    if one is None:
        return ""
    parts = [f"{call} → {_short(call.result)}" for call in one.calls] + ([one.text] if one.text else [])
    tokens = f"{one.input_tokens or 0:,} + {one.output_tokens or 0:,} tokens, {one.seconds:.2f} s"
    return "<br>".join(escape(_short(part)) for part in [f"{one.iteration}. {one.outcome}, {tokens}", *parts])


def _short(text: str, limit: int = SHOWN) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
