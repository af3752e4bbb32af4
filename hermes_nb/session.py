"""A session: a durable conversation over several turns, which another kernel can take up."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from hermes_nb.logbook.book import Logbook
from hermes_nb.logbook.lease import Lease
from hermes_nb.logbook.records import Conversation
from hermes_nb.turn.prompting import prompt_body
from hermes_nb.turn.redaction import redactor
from hermes_nb.vocabulary.events import MessageAdded
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.agent import Agent
    from hermes_nb.logbook.records import Found, TurnRecord
    from hermes_nb.logbook.sink import LogbookSink
    from hermes_nb.run import Run
    from hermes_nb.turn.request import TurnRequest
    from hermes_nb.turn.result import TurnResult
    from hermes_nb.vocabulary.messages import Content, Message


class Session:
    """A conversation in a logbook: written as it happens, continued by any kernel, by one turn at a time.

    Everything that shaped a request is kept, steers and the system prompt too: after a restart the next request begins
    with the same bytes as the last one, so that model servers find their caches.

    Args:
        path: The logbook's file, made with the first turn. A session without an `id` goes on with the newest
            conversation of the file. Left out, it is a new conversation in the user's default logbook.
        id: Identifies the conversation, in this file an existing or a new one.

    Raises:
        ConfigurationError: The id is blank.
        UnreadableTrace: The file is no logbook, or is damaged.

    Attributes:
        id: Identifies the conversation.
        logbook: Where it is kept, with all other conversations of the file.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, id: str | None = None) -> None:  # noqa: A002  its name
        if id is not None and not id.strip():
            msg = "a session's id cannot be blank; leave it out for the newest conversation of the file"
            raise ConfigurationError(msg)
        self.logbook = Logbook(path)
        known = id if id is not None or path is None else self._newest()
        self._is_new = known is None
        self.id = known or str(uuid.uuid4())
        self._lease: Lease | None = None

    def _newest(self) -> str | None:
        conversations = self.logbook.conversations()
        return conversations[-1].id if conversations else None

    @classmethod
    def of(cls, session: Session | bool | str | os.PathLike[str] | None) -> Session | None:
        """The session that an agent's argument names: None is a new one, False is none, a path a file's newest.

        Raises:
            ConfigurationError: It names none.
        """
        if session is None:
            return cls()
        if session is False:
            return None
        if isinstance(session, str | os.PathLike):
            return cls(session)
        if not isinstance(session, cls):
            msg = f"session is a Session, the path of a logbook, None or False, not {session!r}"
            raise ConfigurationError(msg)
        return session

    # ------------------------------------------------------------------------------------- going on

    def start(self, agent: Agent, prompt: Content, **arguments: Any) -> Run:
        """Start the next turn; as `agent.start(prompt, session=...)`."""
        return agent.start(prompt, session=self, **arguments)

    def resume(self, agent: Agent, prompt: Content, **arguments: Any) -> TurnResult:
        """Run the next turn to its end; as `agent.run(prompt, session=...)`.

        Args:
            agent: Who answers; any agent may go on with the conversation.
            prompt: The user's message.
            **arguments: Those of `Agent.run`.

        Raises:
            RunInProgress: A turn of the conversation is running, here or in another kernel.
        """
        return agent.run(prompt, session=self, **arguments)

    def rewind(self, turn_id: str, iteration: int) -> None:
        """Take the conversation back to the end of an iteration; the next turn goes on from there.

        What came later can still be read and searched, and is not sent any more.

        Args:
            turn_id: A turn of this conversation.
            iteration: Of that turn; 0 for right after its prompt.

        Raises:
            ConfigurationError: The conversation has no such turn or iteration.
            RunInProgress: A turn of the conversation is running.
        """
        with Lease(self.logbook.path, self.id):
            if turn_id not in {turn.id for turn in self.turns}:
                msg = f"{self!r} has no turn {turn_id!r}"
                raise ConfigurationError(msg)
            self.logbook.rewind(turn_id, iteration)

    # ------------------------------------------------------------------------------------- looking

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as the next request carries it."""
        return self.logbook.messages(self.id)

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """The turns so far, failed and killed ones included, sub-agents' turns left out."""
        return tuple(turn for turn in self.logbook.turns(self.id) if not turn.parent_turn_id)

    def search(self, text: str, *, limit: int = 20) -> tuple[Found, ...]:
        """Messages of this conversation that contain all words of a text; see `Logbook.search`."""
        return self.logbook.search(text, conversation_id=self.id, limit=limit)

    def __repr__(self) -> str:
        """Names the conversation and the file."""
        return f"<Session {self.id} in {str(self.logbook.path)!r}>"

    # ------------------------------------------------------------------------------------- for the agent

    def open_turn(self, request: TurnRequest) -> TurnRequest:
        """Take the right to write, and put the conversation so far into the request.

        A history that the request brings along takes the conversation's place.

        Raises:
            RunInProgress: A turn of the conversation is running, here or in another process.
            UnreadableTrace: The file is damaged.
        """
        lease = Lease(self.logbook.path, self.id)
        try:
            request = self._continued(request)
        except BaseException:
            lease.close()
            raise
        self._lease, self._is_new = lease, False
        return request

    def _continued(self, request: TurnRequest) -> TurnRequest:
        first, settings = request.chain[0], _settings(request)
        so_far = Conversation() if self._is_new else self.logbook.conversation(self.id)
        writer = self.logbook.store.writer(request.turn_id, self.id, so_far.ids, settings)
        if request.history:
            writer.seed(_redacted(request))
        return replace(
            request,
            conversation_id=self.id,
            history=request.history or so_far.messages,
            number=so_far.turns + 1,
            previous_turn_id=so_far.last_turn_id,
            system=request.system or so_far.system_prompts.get(f"{first.name}:{first.model}{settings}", ""),
        )

    def sink(self, request: TurnRequest, on_trouble: Callable[[str], None]) -> LogbookSink:
        """The sink that writes the turn.

        Args:
            request: The turn, as `open_turn` gave it.
            on_trouble: Told in one sentence when that cannot be done.
        """
        self.logbook.store.writer(request.turn_id, self.id).obstacle = request.disk
        return self.logbook.sink(on_trouble)

    def close_turn(self) -> None:
        """Give the right to write back."""
        if self._lease is not None:
            self._lease.close()


def _settings(request: TurnRequest) -> str:
    """What shapes the system prompt besides the model's identity: while it is the same, so are the prompt's bytes."""
    body = prompt_body(request.instructions, request.toolbox.specs, request.context)
    return f"#{blake2b(body.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def _redacted(request: TurnRequest) -> list[Message]:
    """The history that a request brings along, without the keys of its providers."""
    redact = redactor(request.secrets)
    if redact is None:
        return list(request.history)
    seeds = (redact(MessageAdded(message, index), "point") for index, message in enumerate(request.history))
    return [seed.message for seed in seeds if isinstance(seed, MessageAdded)]
