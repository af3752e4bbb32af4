"""Tools of MCP servers, through the official client (the extra `mcp`).

The connection lives in a daemon thread with an event loop of its own, so that agents in any number of turns and threads
can use it.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import re
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from hermes_nb.tools.context import ToolFailed
from hermes_nb.tools.definition import ToolOptions
from hermes_nb.vocabulary.failures import ConfigurationError, in_words
from hermes_nb.vocabulary.messages import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike
    from types import TracebackType

    from hermes_nb.tools.context import ToolContext
    from hermes_nb.vocabulary.messages import Content

_LONGEST_NAME = 64
_SECONDS_TO_END = 10
_SHOWN_LOG = 500


class MCP:
    """An MCP server whose tools an agent may use: `Agent(..., tools=[*hn.MCP("mcp-server-time"), my_tool])`.

    The server is started at once, and ended by `close()`, by leaving a `with` block, or with the process.

    Args:
        *command: A program and its arguments, started as a child process and spoken to over stdin and stdout.
        url: Instead of a command: the address of a server (streamable HTTP).
        env: Environment variables of the child process, besides a few harmless ones.
        cwd: Its working directory.
        prefix: Put before each tool's name, to tell servers apart.
        timeout: Seconds until a call is given up; None for what is left to the batch.
        patience: Seconds until the server must have told its tools.

    Raises:
        ConfigurationError: The package `mcp` is missing, or the server could not be reached.
    """

    def __init__(
        self,
        *command: str,
        url: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | PathLike[str] | None = None,
        prefix: str = "",
        timeout: float | None = None,
        patience: float = 30.0,
    ) -> None:
        if bool(command) == bool(url):
            msg = "an MCP server is named by a command or by url=, one of both"
            raise ConfigurationError(msg)
        if importlib.util.find_spec("mcp") is None:
            msg = "tools of MCP servers need the package mcp: pip install 'hermes-nb[mcp]'"
            raise ConfigurationError(msg)
        self.name = url or " ".join(command)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  closed by close()
        self._transport = url or _over_stdio(command, env, cwd, self._log)
        told: Future[list[Any]] = Future()
        self._thread = threading.Thread(target=self._run, args=(told,), name="mcp", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        try:
            listed = told.result(patience)
        except Exception as error:
            reason = _first_cause(error)
            said = self._said()
            self.close()
            msg = f"the MCP server {self.name!r} gave no tools ({reason}){said}"
            raise ConfigurationError(msg) from error
        self.tools = tuple(_tool(self, prefix, timeout, described) for described in listed)

    def __iter__(self) -> Iterator[MCPTool]:
        """Its tools."""
        return iter(self.tools)

    def __enter__(self) -> Self:
        """The server itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"{len(self.tools)} tools" if self._client is not None else "closed"
        return f"<MCP {self.name!r}, {state}>"

    def close(self) -> None:
        """End the connection and the child process; calls that are under way fail."""
        atexit.unregister(self.close)
        with suppress(RuntimeError):  # the loop is closed already
            if self._loop is not None and self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel if self._client is None else self._stop.set)
        self._thread.join(timeout=_SECONDS_TO_END)
        self._log.close()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool by the server's own name; cancelling the wait cancels the call.

        Raises:
            ToolFailed: The server has ended, or the connection broke.
        """
        client, loop = self._client, self._loop
        if client is None or loop is None:
            msg = f"the MCP server {self.name!r} has ended"
            raise ToolFailed(msg, "server_ended")
        under_way = asyncio.run_coroutine_threadsafe(client.call_tool(name, dict(arguments)), loop)
        try:
            return await asyncio.wrap_future(under_way)
        except Exception as error:
            msg = f"the MCP server {self.name!r} failed: {in_words(error)}"
            raise ToolFailed(msg, type(error).__name__) from error

    def _run(self, told: Future[list[Any]]) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._serve(told))

    async def _serve(self, told: Future[list[Any]]) -> None:
        from mcp.client import Client  # noqa: PLC0415  heavy, and an extra

        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            async with Client(self._transport) as client:
                tools, cursor = [], None
                while True:
                    page = await client.list_tools(cursor=cursor)
                    tools += page.tools
                    if not (cursor := page.next_cursor):
                        break
                self._client = client
                told.set_result(tools)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001  raised where the tools are awaited
            if not told.done():
                told.set_exception(error)
        finally:
            self._client = None

    def _said(self) -> str:
        """The end of what the child process wrote to stderr."""
        with suppress(OSError, ValueError):
            self._log.seek(0)
            if said := self._log.read().strip():
                return f"; it said: {said[-_SHOWN_LOG:]}"
        return ""


def _first_cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return in_words(error).rstrip(": ")


def _over_stdio(
    command: tuple[str, ...], env: Mapping[str, str] | None, cwd: str | PathLike[str] | None, log: Any
) -> Any:
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415  heavy, and an extra

    program, *arguments = command
    place = None if cwd is None else str(cwd)
    given = StdioServerParameters(command=program, args=arguments, env=dict(env) if env else None, cwd=place)
    return stdio_client(given, errlog=log)


@dataclass(frozen=True)
class MCPTool:
    """One tool of an MCP server; made by `MCP`."""

    server: MCP = field(repr=False)
    remote_name: str
    spec: ToolSpec
    options: ToolOptions

    async def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> Content:  # noqa: ARG002  any tool's
        """Let the server answer the call; it validates the arguments.

        Raises:
            ToolFailed: The server said that it failed, or is gone.
        """
        result = await self.server.call(self.remote_name, arguments)
        content = _content(result)
        if result.is_error:
            raise ToolFailed(content, "mcp_error")
        return content


def _tool(server: MCP, prefix: str, timeout: float | None, described: Any) -> MCPTool:
    """Our tool for one that a server described. What only reads may run beside others of its kind."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", prefix + described.name)[:_LONGEST_NAME]
    only_reads = described.annotations is not None and bool(described.annotations.read_only_hint)
    options = ToolOptions(parallel_safe=only_reads, timeout=timeout, type="extension")
    return MCPTool(server, described.name, ToolSpec(name, described.description or "", described.input_schema), options)


def _content(result: Any) -> Content:
    """What the model reads: the server's texts, its pictures as parts, a label for anything else."""
    parts: list[dict[str, Any]] = []
    for block in result.content:
        if block.type == "image":
            url = f"data:{block.mime_type};base64,{block.data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        elif block.type == "text":
            parts.append({"type": "text", "text": block.text})
        else:
            parts.append({"type": "text", "text": block.model_dump_json(exclude_none=True, exclude={"data", "blob"})})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return tuple(parts)
