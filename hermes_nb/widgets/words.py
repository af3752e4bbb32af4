"""A snapshot in words: status, phase, the sentence at the end, numbers. The same for every view."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hermes_nb.widgets.monitor import Snapshot
    from hermes_nb.widgets.parts import Activity, Row

NANO = 1_000_000_000
"""Nanoseconds in a second."""

_MINUTE = 60

Tone = Literal["", "running", "waiting", "done", "stopped", "failed"]


# ------------------------------------------------------------------------------------------ numbers


def count(number: float) -> str:
    """`812`, `24.9k`, `128k`, `1.2M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:
            value = number / size
            return f"{value:.0f}{unit}" if value >= 99.95 else f"{value:.1f}".removesuffix(".0") + unit  # noqa: PLR2004
    return f"{number:.0f}"


def seconds(value: float) -> str:
    """`0.4 s`, `12.3 s`, `2 min 05 s`, `1 h 02 min`."""
    if value < _MINUTE - 0.05:
        return f"{max(0.0, value):.1f} s"
    minutes, rest = divmod(round(value), _MINUTE)
    if minutes < _MINUTE:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // _MINUTE} h {minutes % _MINUTE:02d} min"


def duration(value: float) -> str:
    """A length of time that was chosen, not measured: `30 s`, `2 min`, `1 min 30 s`."""
    return seconds(value).replace(".0 s", " s").replace(" 00 s", "").replace(" 00 min", "")


def dollars(value: float) -> str:
    """`$0.0042`, `$1.25`."""
    return f"${value:.4f}" if value < 0.1 else f"${value:.3f}" if value < 1 else f"${value:,.2f}"  # noqa: PLR2004


def some(number: int, noun: str, plural: str = "") -> str:
    """`1 tool`, `3 tools`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def reason(text: str) -> str:
    """A low-cardinality name in words: `rate_limit` -> `rate limit`."""
    return text.replace("_", " ").strip() or "unknown reason"


# ------------------------------------------------------------------------------------------ status and phase


@dataclass(frozen=True, slots=True)
class Status:
    """One or two words, and how they are meant."""

    word: str
    tone: Tone


_ENDS = {
    "completed": Status("Completed", "done"),
    "budget_exhausted": Status("Budget used up", "stopped"),
    "ceiling_reached": Status("Ceiling reached", "stopped"),
    "interrupted_by_user": Status("Interrupted", "stopped"),
    "interrupted_by_kernel": Status("Interrupted", "stopped"),
    "interrupted_by_parent": Status("Interrupted", "stopped"),
    "guardrail_halt": Status("Halted", "stopped"),
    "": Status("Ended", "stopped"),
}


def tone_of(exit_reason: str) -> Tone:
    """How an end is meant."""
    return _end(exit_reason).tone


def _end(exit_reason: str) -> Status:
    return _ENDS.get(exit_reason, Status("Failed", "failed"))


def status(snapshot: Snapshot) -> Status:
    """How it stands with the turn."""
    if snapshot.ended:
        return _end(snapshot.turn.exit_reason)
    if snapshot.stop.source:
        return Status("Stopping", "waiting")
    if snapshot.paused:
        return Status("Paused", "waiting")
    if any(activity.kind == "retry" for activity in snapshot.open.values()):
        return Status("Waiting", "waiting")
    return Status("Running", "running") if snapshot.turn.started else Status("Starting", "running")


@dataclass(frozen=True, slots=True)
class Phase:
    """What is going on now. `{left}` in the text stands for the time until `until` (nanoseconds), if that is set."""

    text: str
    until: int = 0

    def at(self, now: int) -> str:
        """The text at a moment, in nanoseconds since the epoch."""
        return self.text.replace("{left}", duration(ceil(max(0, self.until - now) / NANO))) if self.until else self.text


def phase(snapshot: Snapshot) -> Phase:
    """What the turn is doing."""
    if snapshot.ended:
        return Phase(ending(snapshot))
    if snapshot.paused:
        where = f"iteration {snapshot.iteration + 1}" if snapshot.iteration else "the first iteration"
        return Phase(f"before {where}")
    own = [activity for (turn, _), activity in snapshot.open.items() if turn == snapshot.turn_id]
    for kind, tell in _PHASES:
        if found := [activity for activity in own if activity.kind == kind]:
            return tell(snapshot, found)
    return Phase("between two steps" if snapshot.iteration else "getting ready")


def _waiting(_: Snapshot, found: list[Activity]) -> Phase:
    wait = found[-1]
    attempt = f", then attempt {wait.number} of {wait.maximum}" if wait.maximum else ""
    return Phase(f"{{left}} for {reason(wait.name)}{attempt}", wait.until)


def _compressing(_: Snapshot, found: list[Activity]) -> Phase:
    of = f" of {found[-1].maximum}" if found[-1].maximum else ""
    return Phase(f"compressing the history, {found[-1].number}{of}")


def _switching(_: Snapshot, found: list[Activity]) -> Phase:
    return Phase(f"switching to the next provider ({reason(found[-1].name)})")


def _tools(snapshot: Snapshot, found: list[Activity]) -> Phase:
    children = [a for (turn, _), a in snapshot.open.items() if turn != snapshot.turn_id and a.kind == "turn"]
    names = found[0].name if len(found) == 1 else some(len(found), "tool")
    if len(children) == 1 and children[0].number:
        of = f" of {children[0].maximum}" if children[0].maximum else ""
        return Phase(f"running {names} (sub-agent {children[0].name}, iteration {children[0].number}{of})")
    return Phase(f"running {names}")


def _asking(snapshot: Snapshot, found: list[Activity]) -> Phase:
    reading = {
        "reference": "asking " + some(len(found), "reference model"),
        "judge": "asking a judge",
        "summary": "asking for a summary",
    }
    attempt, draft = found[-1], snapshot.draft
    if attempt.purpose in reading:
        return Phase(reading[attempt.purpose])
    if draft.chars:
        return Phase(f"{attempt.name} is answering")
    if draft.call_chars:
        return Phase(f"{attempt.name} is writing a tool call")
    if draft.thinking:
        return Phase(f"{attempt.name} is thinking")
    again = f", attempt {attempt.number} of {attempt.maximum}" if attempt.number > 1 else ""
    return Phase(f"asking {attempt.name}{again}")


_PHASES = (
    ("retry", _waiting),
    ("compression", _compressing),
    ("fallback", _switching),
    ("tool", _tools),
    ("attempt", _asking),
    ("chat", _asking),
)


# ------------------------------------------------------------------------------------------ the end


_DURING = {
    "api_call": "while the model was being asked",
    "tool_call": "while a tool was running",
    "backoff": "during a wait",
    "compression": "while the history was being compressed",
    "paused": "while it was paused",
    "between_iterations": "between two iterations",
}
_STOPPERS = {
    "interrupted_by_user": "you",
    "interrupted_by_kernel": "the kernel's stop button",
    "interrupted_by_parent": "the agent that had started it",
}
_SENTENCES = {
    "completed": "Completed",
    "ceiling_reached": "Stopped at the ceiling",
    "provider_failed": "No provider gave an answer",
    "rate_limited": "The rate limit leaves no request for now",
    "compression_exhausted": "The history does not fit the model's window, compressed or not",
    "empty_response": "The model gave no text",
    "output_truncated": "The answer was cut off",
    "invalid_tool_calls": "The model's tool calls could not be read",
    "content_filtered": "A content filter withheld the answer",
    "guardrail_halt": "Halted: the model was going round in circles",
    "internal_error": "An error in the library or in a policy ended the turn",
    "": "The turn has ended",
}


def ending(snapshot: Snapshot) -> str:
    """How the turn ended, in one sentence or two."""
    turn, spent = snapshot.turn, snapshot.spent
    if turn.exit_reason in _STOPPERS:
        where = f" in iteration {snapshot.iteration}" if snapshot.iteration else " before the first iteration"
        during = _DURING.get(snapshot.stop.during, "")
        stopped = f"Interrupted by {_STOPPERS[turn.exit_reason]}{where}{', ' + during if during else ''}"
        return f"{stopped}. Everything up to there is kept."
    sentence = _SENTENCES.get(turn.exit_reason, reason(turn.exit_reason).capitalize())
    if turn.exit_reason == "budget_exhausted":
        sentence = f"The budget of {some(snapshot.budget.limit, 'iteration')} is used up"
        sentence += "; the grace call gave the last answer" if snapshot.budget.grace == "used" else ""
    elif turn.exit_reason != "completed" and turn.detail:
        sentence += f": {turn.detail.rstrip('.')}"
    took = f"{some(snapshot.iteration, 'iteration')}, {seconds((turn.ended - turn.started) / NANO)}"
    cost = f", {dollars(spent.cost_usd)}" if spent.cost_usd is not None else ""
    return f"{sentence}. {took}{cost}."


# ------------------------------------------------------------------------------------------ who, and tools


def answering(snapshot: Snapshot) -> tuple[str, str]:
    """Who answers, and what is remarkable about it: another model served, a fallback in place of the primary."""
    model, turn = snapshot.model, snapshot.turn
    who = f"{model.provider}:{model.model}".strip(":")
    notes = []
    if model.served:
        notes.append(f"answers as {model.served}")
    if model.fallback:
        notes.append(f"fallback {model.fallback}, instead of {turn.provider}:{turn.model}")
    return who, "; ".join(notes)


_TOOL_WORDS = {
    "": "asked for",
    "running": "running",
    "ok": "",
    "error": "failed",
    "cancelled": "cancelled, effect unknown",
    "skipped": "not started",
    "timeout": "timed out",
}


def tool_state(row: Row) -> str:
    """`1.2 s`, `failed after 0.1 s`, `running`: how it stands with a tool call."""
    word = _TOOL_WORDS.get(row.tone, row.tone)
    if row.seconds is None:
        return word
    return f"{word}, {seconds(row.seconds)}" if word else seconds(row.seconds)
