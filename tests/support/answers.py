"""The steps of a scripted model server: what it can answer.

A step is an `Answer`, or a callable that makes a step of the `Received` request, so that an answer can depend on what
was asked. `say` and `call` take the shape that the request wants: OpenAI or Anthropic, streamed or whole.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.support.shapes import Reply, sse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.server import Received


class Mark:
    """A move that is neither bytes nor a pause."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


STALL = Mark("STALL")  # say nothing more, until the client goes or the server stops
RESET = Mark("RESET")  # a TCP reset
CUT = Mark("CUT")  # close the connection in the middle of the body
KEEPALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"

Move: TypeAlias = bytes | float | Mark


@dataclass(frozen=True)
class Answer:
    """Status, headers and body.

    The body is made of bytes, pauses (seconds) and marks. `before` is the silence before the headers, in seconds.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()
    before: float = 0.0
    chunked: bool = True
    bare: bool = False  # not even a status line


Step: TypeAlias = "Answer | Callable[[Received], Any]"


@dataclass(frozen=True)
class Always:
    """A step for all requests that follow."""

    step: Step


@dataclass(frozen=True)
class Said(Reply):
    """A well-formed reply in the shape that was asked for."""

    def __call__(self, request: Received) -> Answer:
        streamed, pieces = self.shape(request.path, request.body)
        kind = "text/event-stream" if streamed else "application/json"
        return Answer(headers={"content-type": kind}, moves=pieces, chunked=streamed)


def checked(step: Step | Always) -> Step | Always:
    """The step; a mistake in a script is told at once, in the test's own thread."""
    if isinstance(step, Answer | Always) or callable(step):
        return step
    raise TypeError(f"a step of a scripted server is an answer or a function of the request, not {step!r}")


def resolve(step: Step, request: Received) -> Answer:
    """The answer that a step gives to a request."""
    while not isinstance(step, Answer):
        step = step(request)
    return step


def say(text: str, **how: Any) -> Said:
    """Answer with text; `how`: finish, usage, reasoning, model."""
    return Said(text=text, **how)


def call(tool: str, /, **arguments: Any) -> Said:
    """Answer with one tool call; among the arguments, `raw` sets their text as it is, and `id` the call's id."""
    return Said(calls=((tool, arguments),))


def calls(*wanted: Said, **how: Any) -> Said:
    """Answer with several tool calls: `calls(call("add", a=1), call("add", a=2), text="Adding.")`."""
    return Said(calls=tuple(one for said in wanted for one in said.calls), **how)


def status(code: int, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with this status; without a body, with an error in OpenAI's form."""
    if body is None:
        body = {"error": {"message": f"scripted {code}", "type": "scripted", "code": code}}
    return whole(body, status=code, headers=headers)


def whole(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with this body; JSON unless it is text or bytes."""
    kind = "text/plain" if isinstance(body, str | bytes) else "application/json"
    raw = body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, {"content-type": kind, **(headers or {})}, (raw,), chunked=False)


def stream(*moves: Any, done: bool = False, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with server-sent events: dicts and texts become events; bytes, pauses and marks stay as they are."""
    made = [move if isinstance(move, bytes | float | int | Mark) else sse_bytes(move) for move in moves]
    made += [DONE] if done else []
    return Answer(headers={"content-type": "text/event-stream", **(headers or {})}, moves=tuple(made))


def text_chunks(*pieces: str, finish: str | None = None) -> list[dict[str, Any]]:
    """Chunks of a streamed text, to be put into `stream(...)`."""
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    return [*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}] if finish else chunks


def stall() -> Answer:
    """Take the request and say nothing."""
    return Answer(before=math.inf)


def reset() -> Answer:
    """Take the request and reset the connection."""
    return Answer(moves=(RESET,), bare=True)


def slow(seconds: float, step: Step) -> Step:
    """Another step after a silence."""
    return lambda request: replace(resolve(step, request), before=seconds)


def drip(step: Step, seconds: float) -> Step:
    """Another step with a pause after each piece of its body."""

    def made(request: Received) -> Answer:
        answer = resolve(step, request)
        return replace(answer, moves=tuple(move for piece in answer.moves for move in (piece, seconds)))

    return made


def always(step: Step) -> Always:
    """This step for all requests that follow."""
    return Always(step)
