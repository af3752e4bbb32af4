"""What a running tool may know of its turn, and how it says that it failed."""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from hermes_nb.tools.loops import ToolLoop
from hermes_nb.tools.saving import Saves
from hermes_nb.vocabulary.budget import IterationBudget
from hermes_nb.vocabulary.failures import HermesError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hermes_nb.tools.checkpoints import Checkpoints
    from hermes_nb.vocabulary.events import Point, Scoped, Telling, Tool
    from hermes_nb.vocabulary.messages import Content


class ToolFailed(HermesError):
    """Raise this in a tool to answer the call with a failure in your own words, without a traceback.

    Args:
        content: What the model reads.
        error_type: Low-cardinality name of the failure, for the span.
    """

    def __init__(self, content: Content, error_type: str = "tool_failed") -> None:
        super().__init__(content if isinstance(content, str) else error_type)
        self.content = content if isinstance(content, str | tuple | list) else str(content)
        self.error_type = error_type


class InvalidArguments(HermesError):
    """The model's arguments do not fit the tool; the message lists those that would."""


class _Silence:
    """A recorder that nobody listens to: for tools that are run outside of a turn."""

    def tell(self, what: Point) -> None:
        """Nobody is there to be told."""

    def scope(self, what: Scoped) -> AbstractContextManager[Any]:
        return nullcontext(what)


class Interruptible(Protocol):
    """A turn that a tool has started by itself."""

    def interrupt(self, *, source: Any) -> object:
        """Ask for its end; `source` is `parent` here."""


class Interest:
    """Whether somebody still waits for the result of a call; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: tuple[ref[Interruptible], ...] = ()
        self.lost = False

    def lose(self) -> None:
        """Nobody waits any more: the turns that the call has started end too."""
        with self._lock:
            self.lost, turns = True, self._turns
        for turn in turns:
            if (started := turn()) is not None:
                started.interrupt(source="parent")

    def follow(self, turn: Interruptible) -> None:
        """The call has started a turn, which ends when nobody waits for the call any more."""
        with self._lock:
            self._turns += (ref(turn),)
            lost = self.lost
        if lost:
            turn.interrupt(source="parent")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Given to a tool that has a parameter annotated with this class; the model does not see that parameter.

    Attributes:
        call_id: The call being answered.
        turn_id: The turn under way.
        conversation_id: The conversation that the turn belongs to.
        iteration: The iteration under way, from 1.
        agent_name: The agent whose turn it is.
        budget: The turn's iteration budget; a delegate takes its share with `budget.child(limit)`.
        time_left: Seconds that were left to the turn by its ceiling when the calls of this reply began.
        recorder: Where a tool may tell what it does, below its own scope.
        directory: A directory for files of this conversation, where the turn has one.
        turn: The running turn, opaque; for tools that start other agents.
        checkpoints: Saves files before a tool that writes changes them, where the agent has that.
        saves: The snapshots that the turn has taken so.
        loop: Where async tools run.
        event: The open scope of this call; a delegate notes the turn that it started there.
        interest: Whether somebody still waits for this call.
    """

    call_id: str = ""
    turn_id: str = ""
    conversation_id: str = ""
    iteration: int = 0
    agent_name: str = ""
    budget: IterationBudget = field(default_factory=lambda: IterationBudget(0))
    time_left: float = math.inf
    recorder: Telling = field(default_factory=_Silence, repr=False)
    directory: Path | None = None
    turn: Any = field(default=None, repr=False)
    checkpoints: Checkpoints | None = field(default=None, repr=False)
    saves: Saves = field(default_factory=lambda: Saves(""), repr=False)
    loop: ToolLoop = field(default_factory=ToolLoop, repr=False)
    event: Tool | None = field(default=None, repr=False)
    interest: Interest = field(default_factory=Interest, repr=False)

    @property
    def interrupted(self) -> bool:
        """Whether nobody waits for the result any more: interrupted or timed out. Look at it in long work."""
        return self.interest.lost

    def for_call(self, event: Tool) -> ToolContext:
        """This context for one call, with an interrupt signal of its own."""
        return replace(self, call_id=event.call_id, event=event, interest=Interest())

    def give_up(self) -> None:
        """Tell the tool, and the turns that it has started, that nobody waits for its result any more."""
        self.interest.lose()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """What is started in here belongs to this call."""
        token = call_under_way.set(self)
        try:
            yield
        finally:
            call_under_way.reset(token)


call_under_way: ContextVar[ToolContext | None] = ContextVar("hermes_nb_tool_call", default=None)
"""The call under way in this thread or task; a turn that is started there belongs to it."""
