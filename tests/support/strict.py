"""A strict server's view of a request as it came over the wire: what it would refuse, in either API."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hermes_nb.vocabulary.messages import Message
from tests.support.pairing import problems

if TYPE_CHECKING:
    from tests.support.server import Received

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def refusals(request: Received) -> list[str]:
    """What a strict server would refuse in a request; empty for one that every server accepts."""
    try:
        body = json.loads(request.raw.decode(), parse_constant=_refuse, parse_float=_finite)
    except ValueError as error:
        return [f"the body is no JSON: {error}"]
    rows = body["messages"]
    found = _of_messages(rows) if request.path.endswith("/messages") else _of_chat(rows)
    if rows and rows[-1]["role"] not in ("user", "tool"):
        found.append(f"the last word is the {rows[-1]['role']}'s")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) < float("inf") else _refuse(text)  # type: ignore[return-value]  # it raises


# ---------------------------------------------------------------------------------------- chat completions


def _of_chat(rows: list[dict[str, Any]]) -> list[str]:
    found = problems([Message.from_dict(row) for row in rows])
    calls = [call for row in rows for call in row.get("tool_calls") or ()]
    for call in calls:
        found += [] if call["type"] == "function" else [f"a call of type {call['type']}"]
        found += [] if NAME.fullmatch(call["function"]["name"]) else [f"a tool called {call['function']['name']!r}"]
        found += _arguments(call["function"]["arguments"])
    return found


def _arguments(text: str) -> list[str]:
    """Servers put them into templates as objects, so they read them, and not all as Python does."""
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        return [f"arguments {text!r}: {error}"]
    return []


# ---------------------------------------------------------------------------------------- messages


def _of_messages(rows: list[dict[str, Any]]) -> list[str]:
    found = []
    expected = "user"
    asked: list[str] = []
    for number, row in enumerate(rows):
        if row["role"] != expected:
            found.append(f"message {number} is the {row['role']}'s, not the {expected}'s")
        expected = "assistant" if row["role"] == "user" else "user"
        blocks = row["content"]
        found += [] if blocks else [f"message {number} is empty"]
        found += [f"message {number}: {wrong}" for block in blocks for wrong in _block(block)]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if answered != asked or any(block["type"] != "tool_result" for block in blocks[: len(answered)]):
            found.append(f"message {number} answers {answered}, not {asked}")
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        found += [] if len(set(asked)) == len(asked) else [f"message {number} uses an id twice"]
    return [*found, *([f"no results of {asked}"] if asked else [])]


def _block(block: dict[str, Any]) -> list[str]:
    match block:
        case {"type": "text", "text": str() as text}:
            return [] if text.strip() else ["a blank text"]
        case {"type": "tool_use", "id": str() as identity, "name": str() as name, "input": dict()}:
            good = re.fullmatch(r"[\w-]+", identity, flags=re.ASCII) and NAME.fullmatch(name)
            return [] if good else [f"a call {identity!r} of {name!r}"]
        case {"type": "tool_result", "content": [*parts]}:
            return [wrong for part in parts for wrong in _block(part)]
        case {"type": "thinking", "thinking": str(), "signature": str() as signature}:
            return [] if signature else ["an unsigned thought"]
        case {"type": "redacted_thinking", "data": str()} | {"type": "image", "source": {"type": "base64" | "url"}}:
            return []
    return [f"a block {block}"]
