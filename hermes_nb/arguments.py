"""What a user gives to an agent, looked at before anything starts; what cannot work is refused with a way out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hermes_nb.vocabulary.budget import IterationBudget
from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.messages import Message, is_part

if TYPE_CHECKING:
    from hermes_nb.vocabulary.events import Sink
    from hermes_nb.vocabulary.messages import Content


def fitting(**given: tuple[object, type]) -> None:
    """Refuse arguments of a wrong type; what is empty stands for the default.

    Raises:
        ConfigurationError: There is one.
    """
    for name, (value, kind) in given.items():
        if value and not isinstance(value, kind):
            msg = f"{name} is a {kind.__name__}, not {value!r:.100}"
            raise ConfigurationError(msg)


def iterations(budget: object) -> None:
    """Refuse what is no budget.

    Raises:
        ConfigurationError: It is neither an `IterationBudget` nor a whole number of at least 0.
    """
    if isinstance(budget, IterationBudget):
        return
    try:
        IterationBudget(budget)  # type: ignore[arg-type]  # it says what is wrong with it
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def observers(sinks: object) -> tuple[Sink, ...]:
    """The sinks.

    Raises:
        ConfigurationError: They are no list of functions.
    """
    given: tuple[Any, ...] = tuple(sinks) if isinstance(sinks, Iterable) else (None,)
    if not all(map(callable, given)):
        msg = f"sinks is a list of functions of one event, such as [events.append], not {sinks!r:.100}"
        raise ConfigurationError(msg)
    return given


def tracing(tracer_provider: object) -> None:
    """Refuse what cannot make spans.

    Raises:
        ConfigurationError: It is neither None nor a tracer provider.
    """
    if tracer_provider is not None and not hasattr(tracer_provider, "get_tracer"):
        msg = f"tracer_provider is an OpenTelemetry TracerProvider or None, not {tracer_provider!r:.100}"
        raise ConfigurationError(msg)


def sendable(prompt: object) -> Content:
    """The prompt.

    Raises:
        ConfigurationError: It is blank, or neither text nor content parts.
    """
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        msg = "a turn needs a prompt that is not blank"
        raise ConfigurationError(msg)
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list | tuple) or not all(map(is_part, prompt)):
        msg = f'a prompt is text, or parts such as {{"type": "text", "text": "..."}}, not {prompt!r:.100}'
        raise ConfigurationError(msg)
    return tuple(prompt)


def coerced(history: Iterable[Message | Mapping[str, Any]]) -> tuple[tuple[Message, ...], str]:
    """The history as messages, and the text of system messages in it.

    Raises:
        ConfigurationError: Something in it is no message, or a part of one cannot be sent.
    """
    history = tuple(history)
    if strange := [row for row in history if not isinstance(row, Message | Mapping)]:
        msg = f"a history is a list of messages, or of dicts with a role and content; {strange[0]!r:.200} is neither"
        raise ConfigurationError(msg)
    try:
        rows = [row if isinstance(row, Message) else Message.from_dict(row) for row in history]
    except (ValueError, TypeError, AttributeError) as error:
        msg = f"the history cannot be used: {error}"
        raise ConfigurationError(msg) from error
    for content in (row.content for row in rows if not isinstance(row.content, str)):
        if not all(map(is_part, content)):
            msg = f"the history cannot be used: a message has parts that cannot be sent: {content!r:.200}"
            raise ConfigurationError(msg)
    system = "\n\n".join(row.text for row in rows if row.role == "system")
    return tuple(row for row in rows if row.role != "system"), system
