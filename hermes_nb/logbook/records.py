"""What readers get: conversations, turns and found messages, as plain records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.vocabulary.messages import Message


class Row(NamedTuple):
    """A message in the file.

    Attributes:
        id: Of the row: the turn's number and the message's in the turn.
        seq: The event that brought it; 0 if it is part of a history that was given to the turn.
        message: The message.
    """

    id: int
    seq: int
    message: Message


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A conversation in a logbook.

    Attributes:
        id: Identifies it.
        started_at: Nanoseconds since the epoch.
        turns: How many, sub-agents' turns left out.
        title: The beginning of its first prompt.
    """

    id: str
    started_at: int
    turns: int
    title: str


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn in a logbook.

    Attributes:
        id: Identifies it.
        conversation_id: The conversation that it belongs to.
        number: Its place in the conversation, from 1.
        agent: The agent's name.
        provider: The provider with which it began.
        model: The model with which it began.
        prompt: The text of the prompt, its first 1,000 characters.
        started_at: Nanoseconds since the epoch.
        ended_at: The same; None while the turn runs, and for ever if its process was killed.
        exit_reason: Why it ended; empty if it has not.
        failed: It ended because something failed.
        detail: The same in words.
        parent_turn_id: The turn whose tool call this sub-agent's turn is; empty for others.
        previous_turn_id: The conversation's turn before.
        replay_of: The turn of which this is a replay or a fork; empty for others.
        run_id: The process that ran it; empty for turns of older versions.
    """

    id: str
    conversation_id: str
    number: int
    agent: str
    provider: str
    model: str
    prompt: str
    started_at: int
    ended_at: int | None
    exit_reason: str
    failed: bool
    detail: str
    parent_turn_id: str
    previous_turn_id: str
    replay_of: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the next turn of a conversation needs.

    Attributes:
        messages: What the next request carries: every call answered, unanswered prompts left out.
        ids: The rows of those messages that are in the file.
        turns: How many there are, sub-agents' turns left out.
        last_turn_id: The newest of them; empty if there is none.
        system_prompts: The last one for each identity.
    """

    messages: tuple[Message, ...] = ()
    ids: Mapping[Message, int] = field(default_factory=dict)
    turns: int = 0
    last_turn_id: str = ""
    system_prompts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """A message found by a search.

    Attributes:
        conversation_id: Where.
        turn_id: In which turn.
        message: The message, whole.
        snippet: The text around the first place found.
    """

    conversation_id: str
    turn_id: str
    message: Message
    snippet: str
