"""A recording while it is played: it answers for the models and the tools, and does what was done from outside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from hermes_nb.lab.recording import PASSING, is_deed
from hermes_nb.lab.retelling import Retelling
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import Failure, FailureReason, ProviderError, ReplayMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes_nb.lab.recording import Recording
    from hermes_nb.lab.replay import Replay
    from hermes_nb.providers.base import ModelRequest, OnText, Renewal
    from hermes_nb.providers.recorded import Recorded
    from hermes_nb.vocabulary.events import Event
    from hermes_nb.vocabulary.messages import Message, Reply

SHOWN = 200
"""Characters of a message that a mismatch shows."""

BEFORE = 80
"""Characters of them before the difference."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded request: its chat and attempt, and where its events lie."""

    chat: events.Chat
    attempt: events.Attempt
    scope: int
    first: int
    last: int
    interrupted: bool
    ended: bool


class Tape:
    """Plays one recording for one run.

    Args:
        recording: What is played.

    Attributes:
        run: For whom; set when the run is made.
        played: Nothing of the recording is left that was done from outside.
    """

    run: Replay

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.played = False
        self._exchanges = list(_exchanges(recording))
        self._waits = list(_waits(recording))
        self._early = list(takewhile(is_deed, recording.told))
        self._asked = self._waited = self._told = 0

    # ------------------------------------------------------------------------------------- the model

    async def answer(self, provider: Recorded, request: ModelRequest, on_text: OnText) -> Reply:
        """What was answered to this request; see `providers.recorded.Record`."""
        exchange = self._next(provider, request)
        recorder = self.run.recorder
        inside = self.recording.told[exchange.first + 1 : exchange.last]
        Retelling(recorder, self.recording.ends, self.recording.below).tell_all(
            event for event in inside if not is_deed(event)
        )
        if exchange.interrupted:
            on_text(self._said_until(exchange.last))
            await self.stopped(exchange.last)
        attempt, reply = exchange.attempt, exchange.attempt.refused or exchange.chat.reply
        if attempt.failure is not None and attempt.refused is None:
            raise ProviderError(attempt.failure)
        if reply is None:
            raise ReplayMismatch(self._words(f"the record ends in request {self._asked}: it was never answered"))
        on_text(reply.text)
        return reply

    async def connecting(self, provider: Recorded) -> None:
        """What went wrong while the connection was opened."""
        told = self.recording.told
        event = told[self._told] if self._told < len(told) else None
        if event is None or event.phase != "ended" or not isinstance(event.what, events.Chat):
            return
        if event.interrupted:
            await self.stopped(self._told)
        later = (later.what for later in told[self._told :])
        reason = next((what.reason for what in later if isinstance(what, events.Fallback)), FailureReason.CONNECTION)
        chat = event.what
        failure = Failure(FailureReason(reason), chat.error, provider.name, provider.model, error_type=chat.error_type)
        raise ProviderError(failure)

    def renewal(self) -> Renewal:
        """What asking for other credentials brought after the last answer."""
        return self._exchanges[self._asked - 1].attempt.renewal

    def _next(self, provider: Recorded, request: ModelRequest) -> Exchange:
        if self._asked >= len(self._exchanges):
            raise ReplayMismatch(self._words(f"the record ends after {self._asked} requests, one more was asked"))
        exchange = self._exchanges[self._asked]
        self._asked += 1
        chat = exchange.chat
        if (chat.provider, chat.model) != (provider.name, provider.model):
            asked, recorded = f"{provider.name}:{provider.model}", f"{chat.provider}:{chat.model}"
            raise ReplayMismatch(self._words(f"request {self._asked} went to {asked}; recorded: to {recorded}"))
        if difference := _difference(request, chat):
            raise ReplayMismatch(self._words(f"request {self._asked}: {difference}"))
        return exchange

    def _words(self, text: str) -> str:
        return f"the replay of turn {self.recording.turn_id} went another way: {text}"

    def _said_until(self, place: int) -> str:
        """The text that was streaming when the turn was interrupted: the history got it afterwards."""
        for event in self.recording.told[place:]:
            what = event.what
            if isinstance(what, events.MessageAdded) and what.message.role == "assistant":
                return "" if what.message.origin else what.message.text
        return ""

    # ------------------------------------------------------------------------------------- from outside

    def begin(self) -> None:
        """Steer and interrupt as was done before the turn began."""
        for event in self._early:
            self._do(event.what)

    def __call__(self, event: Event) -> None:
        """A sink: counts what the turn tells, and steers and interrupts where that was done."""
        if event.turn_id != self.run.turn_id or isinstance(event.what, PASSING) or self.played:
            return
        if is_deed(event) and not self._is_next(event.what):
            return  # somebody interrupts the replay itself
        self._told += 1
        self.played = self._told >= len(self.recording.told)
        if not self.played and self._told > len(self._early) and is_deed(deed := self.recording.told[self._told]):
            self._do(deed.what)

    def _is_next(self, deed: Any) -> bool:
        recorded = self.recording.told[self._told]
        return is_deed(recorded) and type(recorded.what) is type(deed)

    def _do(self, deed: Any) -> None:
        if isinstance(deed, events.Steered):
            self.run.steer_again(deed.text)
        else:
            is_between = self._observed(self._told).during in ("between_iterations", "paused")
            self.run.interrupt_again(deed, when="boundary" if is_between else "now")

    def _observed(self, place: int) -> events.Interrupt:
        found = (event.what for event in self.recording.told[place:] if isinstance(event.what, events.Interrupt))
        return next((what for what in found if what.status == "observed"), events.Interrupt("user", "observed"))

    async def stopped(self, place: int) -> None:
        """Wait for the interrupt that was observed here; one that nobody asked for (a time limit) is made."""
        self.run.interrupt_silently(self._observed(place).source)
        await anyio.sleep_forever()

    # ------------------------------------------------------------------------------------- the policies

    def next_retry(self) -> events.Retry | None:
        """The next recorded wait."""
        self._waited += 1
        return self._waits[self._waited - 1] if self._waited <= len(self._waits) else None

    def blocked_for(self) -> float:
        """Seconds for which the rate guard held back the request that would come now; 0 if it did not."""
        upcoming = self.recording.told[self._told] if self._told < len(self.recording.told) else None
        if upcoming is None or isinstance(upcoming.what, events.Chat):
            return 0.0
        found = re.search(r"for another (\d+) s", self.recording.turn.detail)
        return float(found[1]) if found else 60.0

    def time_over(self) -> str:
        """Why the turn landed here although its budget was not used up, in words; empty where it went on."""
        upcoming = self.recording.told[self._told].what if self._told < len(self.recording.told) else None
        if not isinstance(upcoming, events.BudgetChanged) or upcoming.action != "exhausted":
            return ""
        is_ceiling = self.recording.turn.exit_reason == "ceiling_reached"
        return self.recording.turn.detail if is_ceiling else "the time was over" * (upcoming.remaining > 0)

    def price(self, *_: object) -> float | None:
        """What the last reply cost."""
        return self._exchanges[self._asked - 1].chat.cost_usd if self._asked else None

    def compressed(self, _: Sequence[Message]) -> Sequence[Message]:
        """What the user's compressor made of the history."""
        for event in self.recording.told[self._told :]:
            if isinstance(event.what, events.HistoryReplaced):
                return event.what.messages
            if isinstance(event.what, events.Compression) and event.phase == "ended":
                break
        msg = "the recorded compressor failed"
        raise RuntimeError(msg)

    # ------------------------------------------------------------------------------------- the end

    def left_over(self, exit_reason: str) -> str:
        """What of the record was not played, in words; empty if all of it was."""
        if self._asked < len(self._exchanges):
            return self._words(f"it ended after {self._asked} of {len(self._exchanges)} requests")
        if exit_reason != (recorded := self.recording.turn.exit_reason):
            return self._words(f"it ended with {exit_reason}; recorded: {recorded or 'no end'}")
        return ""


def _waits(recording: Recording) -> Iterator[events.Retry]:
    """The waits that the retry policy planned, in order."""
    for event in recording.told:
        what = recording.ends.get(event.scope)
        if event.phase == "started" and isinstance(what, events.Retry) and what.source in ("backoff", "retry_after"):
            yield what


def _exchanges(recording: Recording) -> Iterator[Exchange]:
    """The attempts of the loop's own, in order; those that a provider made inside of them are left out."""
    last = {event.scope: (place, event) for place, event in enumerate(recording.told) if event.phase == "ended"}
    for place, event in enumerate(recording.told):
        attempt, chat = recording.ends.get(event.scope), recording.ends.get(event.parent)
        if event.phase != "started" or not isinstance(attempt, events.Attempt) or not isinstance(chat, events.Chat):
            continue
        if any(isinstance(recording.ends[scope], events.Attempt) for scope in recording.around(event.scope)):
            continue
        end, ended = last.get(event.scope, (len(recording.told), None))
        interrupted = ended is not None and ended.interrupted
        yield Exchange(chat, attempt, event.scope, place, end, interrupted, ended is not None)


def _difference(request: ModelRequest, chat: events.Chat) -> str:
    """How a request differs from the recorded one, in words; empty if it does not."""
    for number, (asked, recorded) in enumerate(zip(request.messages, chat.messages, strict=False)):
        if asked != recorded:
            return f"message {number} differs\n{_side_by_side(asked, recorded)}"
    if len(request.messages) != len(chat.messages):
        return f"{len(request.messages)} messages; recorded: {len(chat.messages)}"
    if request.tools != chat.tools:
        asked_tools, recorded_tools = ([tool.name for tool in tools] for tools in (request.tools, chat.tools))
        return f"the tools differ\n  asked:    {asked_tools}\n  recorded: {recorded_tools}"
    return ""


def _side_by_side(asked: Message, recorded: Message) -> str:
    """Both messages near the place where they part; with all their fields where what they say is the same."""
    one, other = _told(asked), _told(recorded)
    if one == other:
        one, other = repr(asked), repr(recorded)
    same = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    start = max(0, same - BEFORE)
    return f"  asked:    {_excerpt(one, start)}\n  recorded: {_excerpt(other, start)}"


def _told(message: Message) -> str:
    calls = "".join(f" {call.name}({call.arguments})" for call in message.tool_calls)
    return f"{message.role}: {message.text}{calls}"


def _excerpt(text: str, start: int) -> str:
    end = start + SHOWN
    return f"{'...' * (start > 0)}{text[start:end]}{'...' * (len(text) > end)}"
