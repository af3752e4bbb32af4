"""How the beginning and the end of a scope change a snapshot.

The dataclass of a scope is filled in while the scope is open, and an event may be folded long after it was told. So at
the beginning only those fields are read that are known from the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from hermes_nb.widgets import safe, words
from hermes_nb.widgets.parts import Activity, Answering, Bar, Draft, Facts, Limits, Row, tool_key

if TYPE_CHECKING:
    from hermes_nb.vocabulary import events
    from hermes_nb.vocabulary.events import Event
    from hermes_nb.widgets.monitor import Snapshot
    from hermes_nb.widgets.parts import Lane


# ------------------------------------------------------------------------------------------ open and close


def _opened(
    snapshot: Snapshot, event: Event, name: str, lane: Lane | None = None, label: str = "", **known: Any
) -> Snapshot:
    """The scope becomes an activity, with a bar that grows where it has a lane."""
    bar = None
    if lane is not None:
        key = f"b{event.scope}" if event.turn_id == snapshot.turn_id else f"b{event.turn_id}.{event.scope}"
        row = known.pop("row", "") or f"i{event.iteration}"
        bar = Bar(key, lane, event.at, label=safe.line(label, 200), row=row)
    activity = Activity(event.what.kind, safe.line(name, 200), event.at, bar=bar, **known)
    return replace(
        snapshot,
        open={**snapshot.open, (event.turn_id, event.scope): activity},
        bars=snapshot.bars.plus(bar) if bar else snapshot.bars,
    )


def closed(snapshot: Snapshot, event: Event, label: str = "") -> Snapshot:
    """The activity is over; its bar gets an end."""
    where = (event.turn_id, event.scope)
    activity = snapshot.open.get(where)
    if activity is None:
        return snapshot
    still = {key: value for key, value in snapshot.open.items() if key != where}
    if activity.bar is None:
        return replace(snapshot, open=still)
    failed = bool(getattr(event.what, "error_type", ""))
    bar = replace(
        activity.bar,
        end=event.at,
        tone="stopped" if event.interrupted else "failed" if failed else "",
        label=safe.line(label, 200) or activity.bar.label,
    )
    return replace(snapshot, open=still, bars=snapshot.bars.plus(bar))


def _noted(snapshot: Snapshot, event: Event, text: str, tone: str = "", detail: str = "") -> Snapshot:
    """One more line of the transcript about what the loop did."""
    row = Row(f"n{event.seq}", "note", event.at, event.iteration, text=safe.line(text), detail=detail, tone=tone,
              bar=f"b{event.scope}")  # fmt: skip
    return replace(snapshot, rows=snapshot.rows.plus(row))


# ------------------------------------------------------------------------------------------ turn and iteration


def turn_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """The turn's facts, its limits, and the prompt as the first row."""
    what = cast("events.Turn", event.what)
    prompt = safe.content(what.prompt)
    facts = Facts(
        safe.line(what.agent, 200),
        what.number,
        safe.line(what.provider, 200),
        safe.line(what.model, 200),
        prompt,
        event.at,
    )
    budget = snapshot.budget if snapshot.budget.sequence >= 0 else replace(
        snapshot.budget, limit=what.budget_limit, remaining=what.budget_limit
    )  # fmt: skip
    settings = what.settings if isinstance(what.settings, Mapping) else {}
    windows = _windows(settings)
    return replace(
        snapshot,
        turn=facts,
        model=Answering(facts.provider, facts.model),
        budget=budget,
        limits=_limits(settings),
        windows=windows,
        context=replace(snapshot.context, window=windows.get(f"{what.provider}:{what.model}")),
        rows=snapshot.rows.plus(Row("prompt", "prompt", event.at, text=prompt)),
    )


def forked(snapshot: Snapshot, event: Event) -> Snapshot:
    """From here on another agent's limits hold, and nothing is taken from the record."""
    what = cast("events.Forked", event.what)
    text = f"Live from here on, with the agent {safe.line(what.agent, 200)}"
    row = Row(f"n{event.seq}", "note", event.at, event.iteration, text=text)
    windows = {**snapshot.windows, **_windows(what.settings)}
    return replace(snapshot, limits=_limits(what.settings), windows=windows, rows=snapshot.rows.plus(row))


def _windows(settings: Mapping[str, Any]) -> dict[str, int]:
    chosen, chain = _number(settings, "compression.context_window"), settings.get("chain")
    entries = [entry for entry in chain if isinstance(entry, Mapping)] if isinstance(chain, list | tuple) else []
    known = {f"{e.get('provider')}:{e.get('model')}": chosen or _number(e, "context_window") for e in entries}
    return {name: tokens for name, tokens in known.items() if tokens}


def _limits(settings: Mapping[str, Any]) -> Limits:
    names = ("ceiling.tokens", "ceiling.seconds", "ceiling.cost_usd", "compression.passes")
    return Limits(*(_number(settings, name) for name in names))


def _number(settings: Mapping[str, Any], name: str) -> Any:
    value = settings.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def turn_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """The last row says how it ended; nothing is open any more."""
    what = cast("events.Turn", event.what)
    cut = [replace(activity.bar, end=event.at, tone="stopped") for activity in snapshot.open.values() if activity.bar]
    spent = snapshot.spent
    if what.usage is not None and what.usage.total_tokens > spent.usage.total_tokens:
        spent = replace(spent, usage=what.usage)
    if what.cost_usd is not None:
        spent = replace(spent, cost_usd=what.cost_usd)
    turn = snapshot.turn if snapshot.turn.started else replace(snapshot.turn, started=event.at)
    reason = safe.line(str(what.exit_reason), 100)
    over = replace(
        snapshot,
        turn=replace(turn, ended=event.at, exit_reason=reason, detail=safe.line(what.detail, 500)),
        spent=spent,
        iteration=max(snapshot.iteration, what.iterations),
        open={},
        calls={},
        bars=snapshot.bars.plus(*cut),
        draft=Draft(),
        paused=False,
    )
    end = Row("end", "end", event.at, over.iteration, text=words.ending(over), tone=words.status(over).tone)
    return replace(over, rows=over.rows.plus(end))


def iteration_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """A separator in the transcript."""
    what = cast("events.Iteration", event.what)
    title = "Grace call" if what.grace else f"Iteration {what.number}"
    row = Row(f"i{what.number}", "iteration", event.at, what.number, title=title)
    begun = _opened(snapshot, event, title, number=what.number)
    budget = replace(begun.budget, grace="used") if what.grace else begun.budget
    return replace(begun, iteration=what.number, rows=begun.rows.plus(row), calls={}, budget=budget)


def refund_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """The separator says that the iteration was given back."""
    why = words.reason(cast("events.Refund", event.what).reason)
    title = f"Iteration {event.iteration}"
    row = Row(f"i{event.iteration}", "iteration", event.at, event.iteration, title=title, detail=f"given back: {why}")
    return replace(snapshot, rows=snapshot.rows.plus(row))


# ------------------------------------------------------------------------------------------ the model


def chat_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """Who is asked; a fallback is seen at once."""
    what = cast("events.Chat", event.what)
    asked = _opened(snapshot, event, what.model, purpose=what.purpose)
    if what.purpose != "main":
        return asked
    model = Answering(safe.line(what.provider, 200), safe.line(what.model, 200), "", what.fallback_index)
    context = replace(asked.context, window=asked.windows.get(f"{what.provider}:{what.model}"))
    return replace(asked, model=model, context=context, draft=Draft())


def chat_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """Who answered, what it cost, and how full the window is by the server's count."""
    what = cast("events.Chat", event.what)
    over = closed(spend(snapshot, event), event)
    over = replace(over, spent=replace(over.spent, chats=over.spent.chats + 1))
    reply = what.reply
    if reply is None or what.purpose != "main":
        return over
    served = safe.line(reply.model, 200)
    over = replace(over, model=replace(over.model, served="" if served == over.model.model else served))
    if reply.usage is None:
        return over
    prompt = reply.usage.input_tokens
    tokens = prompt + reply.usage.output_tokens
    return replace(over, context=replace(over.context, tokens=tokens, real=True))


def spend(snapshot: Snapshot, event: Event) -> Snapshot:
    """Tokens and money of one chat, also of a sub-agent's."""
    what = cast("events.Chat", event.what)
    spent = snapshot.spent
    if what.reply is not None and what.reply.usage is not None:
        spent = replace(spent, usage=spent.usage + what.reply.usage)
    if what.cost_usd is not None:
        spent = replace(spent, cost_usd=(spent.cost_usd or 0.0) + what.cost_usd)
    return replace(snapshot, spent=spent)


def attempt_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """One request: a bar in the lane of the model, but for those that a compression makes."""
    what = cast("events.Attempt", event.what)
    above = (event.turn_id, event.parent)
    chat = snapshot.open.get(above)
    purpose = chat.purpose if chat else "main"
    again = f", attempt {what.number} of {what.maximum}" if what.number > 1 else ""
    lane: Lane | None = None if purpose == "compression" else "model"
    known = {"number": what.number, "maximum": what.maximum, "purpose": purpose}
    begun = _opened(snapshot, event, what.model, lane, f"{what.provider}:{what.model}{again}", **known)
    if chat is not None:
        begun = replace(begun, open={**begun.open, above: replace(chat, number=what.number, maximum=what.maximum)})
    if purpose != "main":
        return begun
    return replace(begun, model=replace(begun.model, bar=f"b{event.scope}"), draft=Draft())


def attempt_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """A failed request keeps its bar, with the reason."""
    what = cast("events.Attempt", event.what)
    reason = f"{what.provider}:{what.model}, attempt {what.number}: {words.reason(what.reason)}" if what.reason else ""
    return closed(snapshot, event, reason)


def retry_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """A wait, with the moment at which it is over."""
    what = cast("events.Retry", event.what)
    chat = snapshot.open.get((event.turn_id, event.parent))
    number, maximum = (chat.number + 1, chat.maximum) if chat else (what.number + 1, 0)
    until = event.at + int(what.wait * words.NANO)
    label = f"{words.reason(what.reason)}: waiting {words.seconds(what.wait)}"
    waiting = _opened(snapshot, event, what.reason, "waits", label, number=number, maximum=maximum, until=until)
    return replace(waiting, spent=replace(waiting.spent, retries=waiting.spent.retries + 1))


def retry_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """A line about the wait."""
    what = cast("events.Retry", event.what)
    over = closed(snapshot, event)
    asked = " as the server asked" if what.source == "retry_after" else ""
    text = f"{words.reason(what.reason).capitalize()}: waited {words.seconds(what.waited)}{asked}, then asked again."
    if what.outcome == "interrupted" or event.interrupted:
        text = f"{words.reason(what.reason).capitalize()}: the wait of {words.seconds(what.wait)} was interrupted."
    return _noted(over, event, text, "wait")


def fallback_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """The next provider is being looked for."""
    return _opened(snapshot, event, cast("events.Fallback", event.what).reason)


def fallback_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """A line about the switch."""
    what = cast("events.Fallback", event.what)
    over = closed(snapshot, event)
    left, taken = f"{what.from_provider}:{what.from_model}", f"{what.to_provider}:{what.to_model}"
    why = words.reason(what.reason)
    if what.outcome == "activated":
        over = replace(over, spent=replace(over.spent, fallbacks=over.spent.fallbacks + 1))
        return _noted(over, event, f"{left} gave up ({why}); from here {taken} answers.", "fallback")
    if what.outcome == "skipped":
        return _noted(over, event, f"{taken.strip(':') or 'A provider'} was skipped ({what.error or why}).", "fallback")
    if what.outcome == "none_left":
        return _noted(over, event, f"{left} gave up ({why}), and no provider is left.", "failed")
    return over


def compression_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """The history is being made smaller."""
    what = cast("events.Compression", event.what)
    done = snapshot.spent.compressions + 1
    begun = _opened(snapshot, event, what.strategy, "compression", f"compression {done} ({what.trigger})",
                    number=done, maximum=snapshot.limits.compressions or 0)  # fmt: skip
    return replace(begun, spent=replace(begun.spent, compressions=done))


def compression_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """A line about what became smaller."""
    what = cast("events.Compression", event.what)
    over = closed(snapshot, event)
    if what.outcome == "compressed":
        over = replace(over, context=replace(over.context, tokens=what.tokens_after, real=False))
        text = (
            f"History compressed: {what.messages_before} to {what.messages_after} messages, about "
            f"{words.count(what.tokens_before)} to {words.count(what.tokens_after)} tokens"
            f"{'; the iteration was given back' if what.refunded else ''}."
        )
        return _noted(over, event, text, "compression", safe.clean(what.summary))
    if what.outcome == "failed":
        return _noted(over, event, f"The history could not be compressed: {what.error or what.error_type}", "warning")
    return over


# ------------------------------------------------------------------------------------------ tools and sub-agents


def tool_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """The row of the call says that it is running."""
    what = cast("events.Tool", event.what)
    row = _tool_row(snapshot, event, what)
    row = replace(row, tone="running", bar=f"b{event.scope}")
    name = what.delegate or what.name
    begun = _opened(snapshot, event, name, "tools", what.name, number=what.index, row=row.key)
    return replace(begun, rows=begun.rows.plus(row), calls={**begun.calls, what.call_id: row})


def _tool_row(snapshot: Snapshot, event: Event, what: events.Tool) -> Row:
    known = snapshot.calls.get(what.call_id)
    if known is not None:
        return known
    key = tool_key(event.iteration, what.call_id)
    return Row(key, "tool", event.at, event.iteration, safe.line(what.name, 200),
               detail=safe.clean(what.arguments, safe.LINE))  # fmt: skip


def tool_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """The row of the call gets its result."""
    what = cast("events.Tool", event.what)
    begun = snapshot.open.get((event.turn_id, event.scope))
    row = replace(
        _tool_row(snapshot, event, what),
        text=safe.content(what.result, safe.RESULT) or safe.clean(what.error, safe.RESULT),
        tone=what.status or ("cancelled" if event.interrupted else "error" if what.error_type else "ok"),
        seconds=(event.at - begun.at) / words.NANO if begun else None,
        bar=f"b{event.scope}",
    )
    over = closed(snapshot, event)
    return replace(
        over,
        rows=over.rows.plus(row),
        calls={**over.calls, what.call_id: row},
        spent=replace(over.spent, tools=over.spent.tools + 1),
    )


def child_started(snapshot: Snapshot, event: Event) -> Snapshot:
    """A sub-agent has begun a turn of its own."""
    what = cast("events.Turn", event.what)
    return _opened(snapshot, event, what.agent, "agents", what.agent, maximum=what.budget_limit)


def child_iteration(snapshot: Snapshot, event: Event) -> Snapshot:
    """How far a sub-agent has come."""
    where = (event.turn_id, event.parent)
    activity = snapshot.open.get(where)
    if activity is None or activity.kind != "turn":
        return snapshot
    number = cast("events.Iteration", event.what).number
    return replace(snapshot, open={**snapshot.open, where: replace(activity, number=number)})


def child_ended(snapshot: Snapshot, event: Event) -> Snapshot:
    """The sub-agent is done; its bar says how."""
    what = cast("events.Turn", event.what)
    return closed(snapshot, event, f"{what.agent}: {words.reason(str(what.exit_reason))}")
