"""The toolbox: runs the calls of one reply, and answers each of them exactly once, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes_nb.tools import results
from hermes_nb.tools.batch import Batch, segments
from hermes_nb.tools.definition import FunctionTool, Tool, is_tool, tool
from hermes_nb.tools.names import closest
from hermes_nb.tools.stored import READER, result_reader
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hermes_nb.tools.context import ToolContext
    from hermes_nb.vocabulary.messages import ToolCall, ToolResult, ToolSpec

WORKERS = 8
"""Calls that run at the same time."""

BATCH_TIMEOUT = 420.0
"""Seconds for all calls of one reply."""


@dataclass(frozen=True, slots=True, init=False)
class Toolbox:
    """The tools of an agent, and how they are run: `Agent(..., tools=Toolbox([look_up, write], workers=2))`.

    Args:
        tools: Tools, or functions that can be made one.
        workers: Parallel-safe calls that may run at the same time.
        batch_timeout: Seconds for all calls of one reply; a tool with a time-out of its own is not bound by it.
        result_limit: Characters of one result; more is kept in a file, and the model reads a preview.
        batch_limit: Characters of all results of one reply; the largest are cut first.
        spill: Directory for the whole text of results that were cut; once one was, the model is offered
            `read_result`, a tool that reads there.

    Attributes:
        specs: What the model is told of each tool, in the order given; the same tuple every time, written once.

    Raises:
        ConfigurationError: Two tools have one name, something is no tool, or a limit cannot work.
        ToolDefinitionError: A function gives no schema.
    """

    tools: Mapping[str, Tool]
    workers: int
    batch_timeout: float
    result_limit: int
    batch_limit: int
    spill: Path | None
    reader: Tool | None
    specs: tuple[ToolSpec, ...]

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        workers: int = WORKERS,
        batch_timeout: float = BATCH_TIMEOUT,
        result_limit: int = results.RESULT_LIMIT,
        batch_limit: int = results.BATCH_LIMIT,
        spill: Path | None = None,
    ) -> None:
        limits = {"workers": workers, "batch_timeout": batch_timeout, "result_limit": result_limit}
        for name, limit in (limits | {"batch_limit": batch_limit}).items():
            if not limit > 0:
                msg = f"{name} is a number above 0, not {limit!r}"
                raise ConfigurationError(msg)
        if not isinstance(tools, Iterable):
            msg = f"tools is a list of functions and tools, such as tools=[population], not {tools!r:.100}"
            raise ConfigurationError(msg)
        named = _named(tools)
        reader = None if spill is None or not named or READER in named else result_reader()
        specs = tuple(tool.spec for tool in named.values())
        fields = limits | {"tools": named, "batch_limit": batch_limit, "spill": spill, "reader": reader, "specs": specs}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What sub-agents among the tools must never tell: the keys of their providers."""
        return tuple(secret for tool in self.tools.values() for secret in getattr(tool, "secrets", ()))

    def offered(self, *, shortened: bool) -> tuple[ToolSpec, ...]:
        """What the model is told of, with the reader of stored results once a result was shortened."""
        return self.specs if self.reader is None or not shortened else (*self.specs, self.reader.spec)

    def fitted(self, context_window: int | None, spill: Path | None) -> Toolbox:
        """This box with limits that suit a window, and a place for what exceeds them; see `results.limits_for`."""
        result_limit, batch_limit = results.limits_for(context_window)
        return self.with_(
            result_limit=min(result_limit, self.result_limit),
            batch_limit=min(batch_limit, self.batch_limit),
            spill=spill,
        )

    def with_(self, tools: Iterable[Tool] | None = None, **limits: Any) -> Toolbox:
        """A copy with other tools or limits; the names are those of the constructor."""
        names = ("workers", "batch_timeout", "result_limit", "batch_limit", "spill")
        own = {name: getattr(self, name) for name in names}
        return Toolbox(self.tools.values() if tools is None else tools, **(own | limits))

    def find(self, name: str) -> Tool | None:
        """The tool that a model means by this name: exactly that one, or the only one that is spelled like it."""
        if self.reader is not None and name == READER:
            return self.reader
        return self.tools.get(name) or self.tools.get(closest(name, self.tools))

    def all_free(self, calls: Iterable[ToolCall]) -> bool:
        """Whether every one of these calls is of a tool that is marked free."""
        found = [self.find(call.name) for call in calls]
        return bool(found) and all(tool is not None and tool.options.free for tool in found)

    async def run(
        self,
        calls: Sequence[ToolCall],
        *,
        context: ToolContext,
        on_result: Callable[[ToolResult], None],
    ) -> None:
        """Run the calls of one reply: neighbours that are parallel-safe together, every other one alone, in order.

        Args:
            calls: The calls, in the model's order. Equal calls are run each.
            context: The turn, as the tools may see it; its recorder gets one `Tool` scope for each call.
            on_result: Called exactly once for each call, in their order, as early as the order and the batch's
                limit allow; also when the wait is cancelled (then: real results of what has finished, "effect
                unknown" for what was running, "not started" for the others).

        Raises:
            KeyboardInterrupt: A tool raised it; all calls have been answered by then.
        """
        batch = Batch(self, calls, context, on_result)
        try:
            for segment in segments(batch.slots):
                await batch.run(segment)
        finally:
            batch.settle()
        if batch.stopped_by is not None:
            raise batch.stopped_by


def _named(tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for given in tools:
        if is_tool(given):
            known: Tool = given
        elif callable(given) and not isinstance(given, type):
            known = tool(given)
        else:
            msg = f"{given!r} is no tool; give a function, a @tool, or agent.as_tool()"
            raise ConfigurationError(msg)
        if isinstance(known, FunctionTool) and known.signature.unbound:
            msg = f"{known.spec.name!r} is a method of a class; give it bound to an object: thing.{known.spec.name}"
            raise ConfigurationError(msg)
        if known.spec.name in named:
            msg = f"two tools have the name {known.spec.name!r}; rename one with @tool(name=...)"
            raise ConfigurationError(msg)
        named[known.spec.name] = known
    return named
