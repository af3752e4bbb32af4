"""Sessions of hermes-agent, from its `state.db`: each user message begins a turn.

That database has no spans. A turn lasts from the user's message to the last message before the next one, a model call
from the message before the assistant's to the assistant's own, a tool from its call to its result.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces import said
from hermes_nb.traces.jsons import loads
from hermes_nb.traces.rows import MessageRow, SpanRow, made_id
from hermes_nb.traces.values import as_float, as_int, as_nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hermes_nb.traces.readers.report import File
    from hermes_nb.traces.readers.selection import Selection
    from hermes_nb.traces.rows import Row

    Record = dict[str, Any]

_NEEDED: Final = {"sessions": {"id"}, "messages": {"session_id", "role", "content"}}


def is_state_db(path: Path) -> bool:
    """Whether a SQLite file has hermes-agent's tables."""
    with closing(_open(path)) as database:
        return all(columns <= _columns(database, table) for table, columns in _NEEDED.items())


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    return database


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row["name"] for row in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def rows(path: Path, file: File, selection: Selection) -> Iterator[Row]:
    """The rows of the sessions that are asked for."""
    file.format = "hermes-agent state.db"
    with closing(_open(path)) as database:
        order = "id" if "id" in _columns(database, "messages") else "rowid"
        sessions: list[Record] = [dict(row) for row in database.execute("SELECT * FROM sessions")]
        if selection.conversation_id is not None:
            sessions = [each for each in sessions if str(each["id"]) == selection.conversation_id]
        for session in selection.newest(sessions, lambda each: as_nanoseconds(each.get("started_at"))):
            query = f"SELECT * FROM messages WHERE session_id = ? ORDER BY {order}"  # noqa: S608  one of two words
            messages = [dict(row) for row in database.execute(query, (session["id"],))]
            file.lines += len(messages)
            yield from _session(session, [each for each in messages if each.get("active", 1) != 0])


def _session(session: Record, messages: Sequence[Record]) -> Iterator[Row]:
    start = next((place for place, each in enumerate(messages) if each["role"] == "user"), len(messages))
    turns: list[list[Record]] = []
    for message in messages[start:]:
        if message["role"] == "user":
            turns.append([])
        turns[-1].append(message)
    for number, turn in enumerate(turns, 1):
        yield from _Turn(session, number, turn).rows()


class _Turn:
    """One turn: the messages from a user's message to the next one."""

    def __init__(self, session: Record, number: int, messages: list[Record]) -> None:
        self._session = session
        self._number = number
        self._messages = messages
        self._turn_id = f"{session['id']}/{number}"
        self._trace_id = made_id(16, self._turn_id)
        self._root = made_id(8, self._turn_id, "turn")

    def rows(self) -> Iterator[Row]:
        """The turn's span, those of its model calls and tools, and its messages."""
        times = [time for time in map(_time, self._messages) if time is not None]
        last = self._messages[-1]
        yield self._span(
            "turn",
            "invoke_agent hermes",
            min(times, default=None),
            max(times, default=None),
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "hermes",
                "gen_ai.request.model": self._session.get("model"),
                "hermes.turn.number": self._number,
                "hermes.turn.completed": last["role"] == "assistant" and not _calls(last),
            },
        )
        for place in range(len(self._messages)):
            yield from self._step(place)
        for place, message in enumerate(self._messages):
            yield from self._parts(place, message)

    def _step(self, place: int) -> Iterator[Row]:
        message = self._messages[place]
        before = self._messages[place - 1] if place else message
        if message["role"] == "assistant":
            model = self._session.get("model")
            reasons = message.get("finish_reason")
            yield self._span(
                f"chat {place}",
                f"chat {model or ''}".rstrip(),
                _time(before),
                _time(message),
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": self._session.get("billing_provider"),
                    "gen_ai.request.model": model,
                    "gen_ai.response.finish_reasons": [reasons] if reasons else None,
                    "gen_ai.usage.output_tokens": as_int(message.get("token_count")),
                },
            )
        elif message["role"] == "tool":
            asked = self._asked(message)
            name = message.get("tool_name") or asked.get("name")
            yield self._span(
                f"tool {place}",
                f"execute_tool {name or ''}".rstrip(),
                _time(before),
                _time(message),
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": name,
                    "gen_ai.tool.call.id": message.get("tool_call_id"),
                    "gen_ai.tool.call.arguments": asked.get("arguments"),
                    "gen_ai.tool.call.result": str(message["content"] or ""),
                },
            )

    def _asked(self, message: Record) -> Record:
        """Name and arguments of the call that a result answers."""
        calls = (call for each in self._messages for call in _calls(each))
        found = (call for call in calls if call.get("id") == message.get("tool_call_id"))
        function = next(found, {}).get("function")
        return function if isinstance(function, dict) else {}

    def _parts(self, place: int, message: Record) -> Iterator[Row]:
        given = {**message, "content": _content(message["content"]), "tool_calls": _calls(message)}
        for found in said.messages([given]):
            for number, part in enumerate(said.parts(found)):
                direction = "output" if message["role"] == "assistant" else "input"
                tokens = as_int(message.get("token_count")) if not number else None
                yield MessageRow(
                    self._turn_id, place, number, direction=direction, tokens=tokens, trace_id=self._trace_id, **part
                )

    def _span(self, mark: str, name: str, start: int | None, end: int | None, attributes: Record) -> SpanRow:
        is_turn = mark == "turn"
        own = {"hermes.turn.id": self._turn_id, "gen_ai.conversation.id": str(self._session["id"])}
        return SpanRow(
            self._trace_id,
            self._root if is_turn else made_id(8, self._turn_id, mark),
            None if is_turn else self._root,
            name,
            "INTERNAL",
            start,
            end,
            "UNSET",
            None,
            own | {key: value for key, value in attributes.items() if value is not None},
            service_name="hermes-agent",
        )


def _content(content: Any) -> Any:
    """The content of a message; a list is kept as JSON behind a mark."""
    if not isinstance(content, str):
        return content
    place = content.find("[")
    if content[:1] != "\x00" or place < 0:
        return content
    try:
        return loads(content[place:])
    except ValueError:
        return content


def _calls(message: Record) -> list[Record]:
    found = message.get("tool_calls")
    try:
        value = loads(found) if isinstance(found, str) else found
    except ValueError:
        return []
    return [call for call in value if isinstance(call, dict)] if isinstance(value, list) else []


def _time(message: Record) -> int | None:
    seconds = as_float(message.get("timestamp"))
    return None if seconds is None else as_nanoseconds(seconds)
