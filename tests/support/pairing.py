"""A strict server's view of a conversation: what it would refuse."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_nb.vocabulary.messages import Message


def problems(messages: Sequence[Message]) -> list[str]:
    """What a strict server would refuse in these messages; empty for a conversation that every server accepts.

    The system prompt only comes first; user and assistant alternate; each call is answered exactly once, right after
    the message that asks for it and in its order; arguments are JSON objects; names and texts are not blank.
    """
    rows = list(messages)
    if rows and rows[0].role == "system":
        rows = rows[1:]
    found = [*_roles(rows), *_calls(rows)]
    for number, row in enumerate(rows):
        if row.role != "tool" and not row.tool_calls and not row.content:
            found.append(f"message {number} ({row.role}) is empty")
        try:
            json.dumps(row.as_dict(), ensure_ascii=False).encode()
        except UnicodeEncodeError:
            found.append(f"message {number} holds a lone surrogate")
    return found


def _roles(rows: Sequence[Message]) -> list[str]:
    found = []
    if rows and rows[0].role != "user":
        found.append(f"the conversation begins with {rows[0].role}")
    speaking = [(number, row) for number, row in enumerate(rows) if row.role != "tool"]
    for (_, before), (number, row) in pairwise(speaking):
        if row.role == "system":
            found.append(f"message {number} is a second system prompt")
        if row.role == before.role and not before.tool_calls:
            found.append(f"messages up to {number}: {row.role} twice in a row")
    return found


def _calls(rows: Sequence[Message]) -> list[str]:
    found = []
    open_ids: list[str] = []
    for number, row in enumerate(rows):
        if row.role == "tool":
            if not open_ids or row.tool_call_id != open_ids[0]:
                found.append(f"message {number} answers {row.tool_call_id}, expected {open_ids[:1]}")
            open_ids = [one for one in open_ids if one != row.tool_call_id]
            continue
        if open_ids:
            found.append(f"message {number} comes before the results of {open_ids}")
        open_ids = [one.id for one in row.tool_calls]
        if len(set(open_ids)) != len(open_ids):
            found.append(f"message {number} uses an id twice")
        bad = [c for c in row.tool_calls if not c.id or not c.name.strip() or not _is_object(c.arguments)]
        found.extend(f"message {number} has a call that cannot be read: {one}" for one in bad)
    return [*found, *([f"no results of {open_ids}"] if open_ids else [])]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
