"""From a Python function to a tool: `@tool`, and what every tool is."""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    SupportsIndex,
    TypeGuard,
    TypeVar,
    cast,
    overload,
    runtime_checkable,
)

from hermes_nb.tools.finite import MORE, Reading
from hermes_nb.tools.threads import Pace, run_in_thread
from hermes_nb.vocabulary.events import Degraded
from hermes_nb.vocabulary.failures import ToolDefinitionError
from hermes_nb.vocabulary.messages import ToolSpec
from hermes_nb.vocabulary.protocols import conforms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import AsyncGeneratorType

    from hermes_nb.tools.context import ToolContext
    from hermes_nb.tools.schema import Signature

P = ParamSpec("P")
R = TypeVar("R")
ToolType = Literal["function", "extension", "datastore"]


@runtime_checkable
class Tool(Protocol):
    """What the toolbox knows of a tool: a function, a sub-agent, a tool of another server. See `ToolOptions`."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema, as the model is told."""

    @property
    def options(self) -> ToolOptions:
        """How the tool is to be run."""

    async def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> object:
        """Answer one call.

        Args:
            arguments: The model's arguments, parsed from JSON, not yet validated.
            context: The call and its turn.

        Returns:
            Any value; see `hermes_nb.tools.results` for what the model reads of it.

        Raises:
            InvalidArguments: The arguments do not fit; the model reads which would.
            ToolFailed: The call failed; the model reads the words of the exception.
            Exception: The call failed; the model reads type, message and a short traceback.
        """


def is_tool(value: object) -> TypeGuard[Tool]:
    """Whether something can be called as a tool; a wrapper that delegates to one can."""
    return conforms(value, Tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How a tool is run.

    Attributes:
        parallel_safe: May run at the same time as its parallel-safe neighbours of one reply; all others run alone.
        timeout: Seconds until a call is given up; `math.inf` for never; None for what is left to the batch.
        free: An iteration whose calls are all of free tools is given back.
        writes: Whether the tool changes files, so that a checkpoint is taken first: True for the turn's directory,
            or the name of the parameter that holds the path.
        result_limit: Characters of a result that the model reads; None for the toolbox's limit.
        type: As in `gen_ai.tool.type`: `function` runs here, `extension` elsewhere, `datastore` looks something up.
        delegate: The agent that answers the call, if one does.
    """

    parallel_safe: bool = False
    timeout: float | None = None
    free: bool = False
    writes: bool | str = False
    result_limit: int | None = None
    type: ToolType = "function"
    delegate: str = ""

    def __post_init__(self) -> None:
        """Refuse limits that cannot work."""
        if self.timeout is not None and not self.timeout > 0:
            msg = f"a tool's timeout is a number of seconds above 0 (math.inf for none), not {self.timeout!r}"
            raise ToolDefinitionError(msg)
        if self.result_limit is not None and self.result_limit <= 0:
            msg = f"a tool's result_limit is a number of characters above 0, not {self.result_limit!r}"
            raise ToolDefinitionError(msg)


@dataclass(frozen=True)
class FunctionTool(Generic[P, R]):
    """A function as a tool; still called like the function.

    Made by `@tool`. Decorated methods are bound as usual: `tools=[library.search]`.
    """

    function: Callable[P, R]
    _: KW_ONLY
    name: str = ""
    description: str = ""
    guidance: str = ""
    options: ToolOptions = ToolOptions()

    def __post_init__(self) -> None:
        """Read the signature now, so that a function that cannot be a tool is refused at once."""
        inner = _innermost(self.function)
        if not callable(inner):
            msg = f"a tool is made of a function, not {inner!r}"
            raise ToolDefinitionError(msg)
        vars(self).update(__wrapped__=self.function, __doc__=inspect.getdoc(inner), __module__=inner.__module__)
        _ = self.spec

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R]:
        """Bind a decorated method to its object."""
        if instance is None or not hasattr(self.function, "__get__"):
            return self
        return replace(cast("FunctionTool[..., R]", self), function=self.function.__get__(instance, owner))

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        """By name where a module has this tool in the function's place, as pickle does it with functions."""
        name = getattr(_innermost(self.function), "__qualname__", "")
        is_there = self.__module__ != "__main__" and vars(sys.modules.get(self.__module__, object)).get(name) is self
        return name if is_there else super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        """Only the fields: what is derived from them is derived anew where the tool is unpickled."""
        return {name: vars(self)[name] for name in ("function", "name", "description", "guidance", "options")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    @functools.cached_property
    def signature(self) -> Signature:
        """The parameters that the model sees, with their validation."""
        from hermes_nb.tools.schema import Signature  # noqa: PLC0415  pydantic is heavy: loaded by the first tool

        return Signature.of(self.function, self.name or _name(self.function))

    @functools.cached_property
    def _pace(self) -> Pace:
        return Pace()

    @functools.cached_property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema, as the model is told."""
        signature = self.signature
        told = self.description or signature.description
        return ToolSpec(signature.name, told, signature.parameters, self.guidance)

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether calling it gives something to be awaited, as far as can be seen."""
        inner = _innermost(self.function)
        call = getattr(inner, "__call__", None)  # noqa: B004  its kind is asked for, not whether it exists
        return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(call)

    async def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> object:
        """Validate the arguments and call the function: a plain one in a thread, an async one in the tools' loop.

        The arguments are validated there too: annotations may bring functions of the user's along.
        """

        def call() -> Any:
            keywords = self.signature.validate(arguments)
            if name := self.signature.context_parameter:
                keywords[name] = context
            return cast("Callable[..., Any]", self.function)(**keywords)

        def abandoned() -> None:
            context.give_up()
            told = f"{self.spec.name} still runs in its thread; nobody waits for its result"
            context.recorder.tell(Degraded("tool", told))

        if not self.is_async:
            value = await run_in_thread(call, name=f"tool {self.spec.name}", pace=self._pace, on_abandoned=abandoned)
            if inspect.isasyncgen(value):
                value = _collected(value)
            if not inspect.isawaitable(value):
                return value
            return await context.loop.run(functools.partial(_itself, value), on_abandoned=abandoned)
        return await context.loop.run(call, on_abandoned=abandoned)


async def _collected(values: AsyncGeneratorType[object, Any]) -> list[object]:
    """What an async generator gives, up to a bound."""
    reading = Reading()
    found: list[object] = []
    async with aclosing(values):
        async for value in values:
            if not reading.takes(value):
                return [*found, MORE]
            found.append(value)
    return found


async def _itself(value: Awaitable[Any]) -> Any:
    return await value


def _innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _name(function: Callable[..., Any]) -> str:
    inner = _innermost(function)
    return getattr(inner, "__name__", type(inner).__name__)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    guidance: str = "",
    parallel_safe: bool = False,
    timeout: float | None = None,
    free: bool = False,
    writes: bool | str = False,
    result_limit: int | None = None,
    type: ToolType = "function",
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    guidance: str = "",
    **options: Any,
) -> FunctionTool[..., Any] | Callable[[Callable[..., Any]], FunctionTool[..., Any]]:
    """Make a tool of a function, a method, or a `functools.partial`; plain or async.

    The schema comes from the annotations, the descriptions from the docstring (Google, NumPy or reST style).
    A parameter without annotation takes any JSON value. Arguments that `functools.partial` fixed are not shown to the
    model. A parameter annotated `ToolContext` is filled in by the loop. Plain functions run in threads; the async
    functions of a turn share an event loop of their own, in a thread beside the turn's.

    Args:
        function: The function; left out when options are given: `@tool(parallel_safe=True)`.
        name: The tool's name; the function's name if left out.
        description: What the tool does; the docstring's text if left out.
        guidance: When and how to use it, beyond what it does; stands in the system prompt, which is built once for a
            conversation.
        **options: See `ToolOptions`: parallel_safe, timeout, free, writes, result_limit, type.

    Returns:
        The tool, callable like the function.

    Raises:
        ToolDefinitionError: The signature gives no schema; the message names the parameter.
    """

    def decorate(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        plain = function.function if isinstance(function, FunctionTool) else function
        made_of = {"name": name, "description": description, "guidance": guidance}
        return FunctionTool(plain, **made_of, options=ToolOptions(**options))

    return decorate if function is None else decorate(function)
