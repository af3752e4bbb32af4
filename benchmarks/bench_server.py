"""A small, fast model server on loopback for the programs that measure, in a process of its own.

The model's name scripts the turn: `tools-50` asks for 50 calls of `add`, one after the other, then answers;
`text-200` answers with 200 words; `wait-50` takes 50 ms before each reply. Parts are joined by `+`. A client that has
a tool `final_answer` gets the answer as a call of it.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
MODEL = re.compile(rb'"model": ?"([^"]*)"')
OBSERVED = re.compile(rb'": ?"Observation:')  # results as a user's words


def settings(body: bytes) -> dict[str, int]:
    """What the model's name asks for."""
    found = MODEL.search(body)
    parts = (found[1].decode() if found else "").split("+")
    return {name: int(number) for name, _, number in (part.partition("-") for part in parts) if number.isdigit()}


def message(wanted: dict[str, int], done: int, *, by_tool: bool) -> tuple[dict, str]:
    """The reply's message and finish reason, after so many tool results."""
    text = " ".join(["word"] * wanted.get("text", 2))
    if done < wanted.get("tools", 0):
        return calling("add", done, a=done, b=1), "tool_calls"
    if by_tool:
        return calling("final_answer", done, answer=text), "tool_calls"
    return {"role": "assistant", "content": text}, "stop"


def calling(tool: str, number: int, **arguments: object) -> dict:
    """A message that calls one tool."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    calls = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(body: bytes, wanted: dict[str, int]) -> bytes:
    """The whole response."""
    prompt = len(body) // 4
    by_tool = b'"final_answer"' in body
    done = len(OBSERVED.findall(body)) if by_tool else body.count(b'"tool_call_id"')
    said, finish = message(wanted, done, by_tool=by_tool)
    usage = {"prompt_tokens": prompt, "completion_tokens": 12, "total_tokens": prompt + 12}
    if b'"stream":true' not in body and b'"stream": true' not in body:
        choice = {"index": 0, "message": said, "finish_reason": finish}
        head = {"id": "r", "object": "chat.completion", "created": 1, "model": "bench"}
        data = json.dumps({**head, "choices": [choice], "usage": usage}).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)
    deltas: list[dict] = [{"tool_calls": said["tool_calls"]}] if said.get("tool_calls") else []
    deltas += [{"content": f" {word}"} for word in (said["content"] or "").split()]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": usage}]
    head = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    events = [b"data: " + json.dumps({**head, **chunk}).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]
    start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return start + b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = LENGTH.search(head)
            body = await reader.readexactly(int(length[1])) if length else b""
            wanted = settings(body)
            if wanted.get("wait"):
                await asyncio.sleep(wanted["wait"] / 1000)
            writer.write(answer(body, wanted))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def serve(listener: socket.socket) -> None:
    """The process's body."""

    async def main() -> None:
        async with await asyncio.start_server(serve_one, sock=listener, limit=1 << 26) as server:
            await server.serve_forever()

    asyncio.run(main())


@contextmanager
def running() -> Iterator[str]:
    """Start the server; gives its base URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        process = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
        process.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            process.terminate()
            process.join(5)


if __name__ == "__main__":
    with running() as url:
        print(f"serving at {url}, for the other programs of this folder; nothing to measure here")
