"""One turn's rows on their way to the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_nb.logbook.codec import SHAPES, Encoder, dumps
from hermes_nb.logbook.records import Row
from hermes_nb.logbook.schema import TURN
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.growing import common_length
from hermes_nb.vocabulary.messages import Message
from hermes_nb.vocabulary.process import run_id
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping

    from hermes_nb.vocabulary.messages import Content, ToolSpec

_SENT = ("messages", "tools")
"""Fields of a chat that are kept apart."""

TITLE = 1000
"""Characters of the prompt that lists of turns show."""


class TurnWriter:
    """Turns the events of one turn into rows, and keeps them until they are written.

    A message is named by its number within the turn, from 1, or by its row's id if it is of an earlier turn; the ids
    of rows are so much greater that the two cannot be confused.

    Args:
        turn_id: The turn.
        conversation_id: Its conversation.
        known: Ids of the messages of earlier turns.
        settings: What besides the model's identity shapes the system prompt.

    Attributes:
        behind: What waits could not be written.
        given_up: Nothing more is kept.
        late: The turn was over before: a word came after its end.
        obstacle: Says why the next write cannot be, until the turn has ended; for faults that are injected.
    """

    def __init__(self, turn_id: str, conversation_id: str, known: Mapping[Message, int], settings: str = "") -> None:
        self.turn_id = turn_id
        self.conversation_id = conversation_id
        self.row: int | None = None
        self.behind = False
        self.given_up = self.late = False
        self.obstacle: Callable[[], str] | None = None
        self.begun = events.Turn("", "", "", "")
        self.begun_at = 0
        self.ended_at: int | None = None
        self.messages: list[tuple[int, int, bool, Message]] = []
        self.histories: list[tuple[int, list[int]]] = []
        self.begun_calls: set[str] = set()
        self.prompts: list[tuple[str, str]] = []
        self._events: list[list[Any]] = []
        self._known = dict(known)
        self._count = 0
        self._encoder = Encoder()
        self._open: dict[int, tuple[Any, ...]] = {}
        self._sent: tuple[Message, ...] = ()
        self._tools: tuple[tuple[ToolSpec, ...], dict[str, str]] = ((), {})
        self._identity = self._settings = settings

    @property
    def waiting(self) -> bool:
        """Whether there are rows to write."""
        return bool(self._events or self.histories)

    # ------------------------------------------------------------------------------------------ taking

    def seed(self, history: Iterable[Message]) -> None:
        """Begin with a history that is not in the file, instead of the conversation's."""
        numbers = [self._number(message) for message in history]
        self.histories.append((self._count, numbers))

    def take(self, event: events.Event) -> None:
        """Add what an event says to the rows that wait."""
        what = event.what
        if isinstance(what, events.Delta) or self.given_up:
            return
        if event.phase == "started":
            data = self._started(event)
        elif event.phase == "ended":
            data = self._ended(event)
        else:
            data = self._point(event)
        self._events.append(
            [event.seq, event.phase, event.at, event.iteration, event.scope, event.parent, what.kind,
             int(event.interrupted), data]
        )  # fmt: skip

    def _started(self, event: events.Event) -> dict[str, Any]:
        what = event.what
        self._open[event.scope] = SHAPES[type(what)].values(what)
        if isinstance(what, events.Chat):
            return self._chat(what)
        if isinstance(what, events.Turn):
            self.begun, self.begun_at = what, event.at
            self._identity = f"{what.provider}:{what.model}{self._settings}"
        elif isinstance(what, events.Tool):
            self.begun_calls.add(what.call_id)
        return self._encoder.differences(what)

    def _ended(self, event: events.Event) -> dict[str, Any]:
        """Only what has changed since the start."""
        what = event.what
        if isinstance(what, events.Turn):
            self.begun, self.ended_at, self.obstacle = what, event.at, None
        elif isinstance(what, events.Fallback) and what.outcome == "activated":
            self._identity = f"{what.to_provider}:{what.to_model}{self._settings}"
        without = _SENT if isinstance(what, events.Chat) else ()
        return self._encoder.differences(what, self._open.pop(event.scope, None), without)

    def _point(self, event: events.Event) -> dict[str, Any]:
        match event.what:
            case events.MessageAdded() as added:
                number = self._add(added.message, event.seq, ephemeral=added.ephemeral)
                return {"row": number, **self._encoder.differences(added, without=("message",))}
            case events.HistoryReplaced(messages):
                numbers = [self._number(message, event.seq) for message in messages]
                self.histories.append((self._count, numbers))
                return {"rows": numbers}
            case events.SystemPrompt(text):
                self.prompts.append((self._identity, text))
        return self._encoder.differences(event.what)

    def _chat(self, chat: events.Chat) -> dict[str, Any]:
        """A chat: its messages as the difference to those of the chat before, its tools kept apart."""
        data = self._encoder.differences(chat, without=_SENT)
        same = common_length(self._sent, chat.messages)
        self._sent = chat.messages
        data["sent"] = [same, [self._reference(message) for message in chat.messages[same:]]]
        if chat.tools:
            data["tools"] = self._specs(chat.tools)
        return data

    def _specs(self, tools: tuple[ToolSpec, ...]) -> dict[str, str]:
        if self._tools[0] != tools:
            specs = [{"name": t.name, "description": t.description, "parameters": dict(t.parameters)} for t in tools]
            self._tools = (tools, self._encoder.keep(dumps(specs)))
        return self._tools[1]

    def _add(self, message: Message, seq: int, *, ephemeral: bool = False) -> int:
        self._count += 1
        self.messages.append((self._count, seq, ephemeral, message))
        if isinstance(message.content, str):
            self._known.setdefault(message, self._count)
        return self._count

    def _find(self, message: Message) -> int | None:
        """The name of an equal message; none for content parts, which have no hash."""
        return self._known.get(message) if isinstance(message.content, str) else None

    def _number(self, message: Message, seq: int = 0) -> int:
        found = self._find(message)
        return self._add(message, seq) if found is None else found

    def _reference(self, message: Message) -> Any:
        found = self._find(message)
        return self._encoder.plain(message) if found is None else found

    def applied_to(self, rows: list[Row], base: int) -> list[Row]:
        """A history with the messages that wait here behind it; `base` goes into the ids of their rows."""
        own = [Row(base | number, seq, message) for number, seq, ephemeral, message in self.messages if not ephemeral]
        if not self.histories:
            return rows + own
        after, numbers = self.histories[-1]
        known = {row.id: row for row in (*rows, *own)}
        kept = [known[number if number >> TURN else base | number] for number in numbers]
        return kept + [row for row in own if row.id > base | after]

    # ----------------------------------------------------------------------------------------- writing

    def write(self, db: sqlite3.Connection) -> int:
        """Write all rows that wait; the caller commits and then says `saved`.

        Returns:
            The turn's row.
        """
        bodies = [dumps(self._encoder.plain(message)) for *_, message in self.messages]
        turn = self._write_turn(db) if self.row is None else self.row
        base = turn << TURN
        if self._encoder.texts:
            texts = [(digest, text.encode("utf-8", "surrogatepass")) for digest, text in self._encoder.texts.items()]
            db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts)
        for (number, seq, ephemeral, message), body in zip(self.messages, bodies, strict=True):
            db.execute(
                "INSERT INTO messages VALUES (?, ?, ?, ?, ?)", (base | number, seq, message.role, ephemeral, body)
            )
        if self._events:
            db.execute("INSERT INTO chunks VALUES (?, ?)", (base | self._events[0][0], dumps(self._events)))
        if self.histories or self.prompts or self.ended_at is not None:
            self._write_rarer(db, turn)
        return turn

    def _write_turn(self, db: sqlite3.Connection) -> int:
        turn, name = self.begun, self.conversation_id
        db.execute("INSERT OR IGNORE INTO conversations (name, started_at) VALUES (?, ?)", (name, self.begun_at))
        db.execute(
            "INSERT INTO turns (name, conversation, number, agent, provider, model, prompt, parent, previous,"
            " replay_of, run_id, started_at)"
            " SELECT ?, id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM conversations WHERE name = ?"
            " ON CONFLICT (name) DO NOTHING",  # a word that comes after the end of the turn
            (self.turn_id, turn.number, unicode_only(turn.agent), unicode_only(turn.provider), unicode_only(turn.model),
             _title(turn.prompt), turn.parent_turn_id, turn.previous_turn_id, turn.replay_of, run_id(), self.begun_at,
             name),
        )  # fmt: skip
        (row,) = db.execute("SELECT id FROM turns WHERE name = ?", (self.turn_id,)).fetchone()
        return int(row)

    def _write_rarer(self, db: sqlite3.Connection, turn: int) -> None:
        (conversation,) = db.execute("SELECT conversation FROM turns WHERE id = ?", (turn,)).fetchone()
        base = turn << TURN
        for after, numbers in self.histories:
            kept = dumps([number if number >> TURN else base | number for number in numbers])
            db.execute(
                "INSERT INTO histories (conversation, after, kept) VALUES (?, ?, ?)", (conversation, base | after, kept)
            )
        for identity, text in self.prompts:
            db.execute(
                "INSERT INTO prompts (conversation, turn, identity, text) VALUES (?, ?, ?, ?)",
                (conversation, turn, unicode_only(identity), dumps(text)),
            )
        if self.ended_at is not None:
            db.execute(
                "UPDATE turns SET ended_at = ?, exit_reason = ?, failed = ?, detail = ? WHERE id = ?",
                (self.ended_at, self.begun.exit_reason, self.begun.failed, unicode_only(self.begun.detail), turn),
            )

    def saved(self, row: int) -> None:
        """The rows are in the file."""
        self.row, self.behind = row, False
        self._clear()

    def give_up(self) -> None:
        """Nothing more of this turn is kept."""
        self.given_up, self.behind = True, False
        self._clear()

    def _clear(self) -> None:
        self._encoder.texts.clear()
        self.messages.clear()
        self.histories.clear()
        self.prompts.clear()
        self._events.clear()


def _title(prompt: Content) -> str:
    """The prompt for lists of turns; the whole one is in the messages."""
    return unicode_only(Message("user", prompt).text[:TITLE])
