"""Ask providers without a loop, in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from hermes_nb.providers.base import ModelRequest
from hermes_nb.providers.openai_chat import OpenAIChat
from hermes_nb.vocabulary.failures import Failure, ProviderError
from hermes_nb.vocabulary.messages import Message, Reply, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes_nb.providers.base import Provider
    from tests.support.server import Server

ADD = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def chat(server: Server, model: str = "m", **how: Any) -> OpenAIChat:
    """A provider that asks the test server."""
    return OpenAIChat(model, **{"base_url": server.url, "api_key": "key-one", **how})


def request(*messages: Message | str, **how: Any) -> ModelRequest:
    """A request; texts are what the user says."""
    made = tuple(Message("user", m) if isinstance(m, str) else m for m in messages or ("hello",))
    return ModelRequest(made, **how)


class Heard(list):
    """The pieces that were streamed; `text`, `reasoning` and `call` join them by kind."""

    def __call__(self, text: str, part: str = "text") -> None:
        self.append((part, text))

    def __getattr__(self, part: str) -> str:
        return "".join(text for kind, text in self if kind == part)


def ask_all(provider: Provider, requests: Iterable[ModelRequest], on_text: Any = None) -> list[Reply | Failure]:
    """The answers or failures of several requests over one connection."""

    async def main() -> list[Reply | Failure]:
        out: list[Reply | Failure] = []
        async with provider.connect() as connection:
            for one in requests:
                try:
                    out.append(await connection.ask(one, Heard() if on_text is None else on_text))
                except ProviderError as error:
                    out.append(error.failure)
        return out

    return anyio.run(main)


def ask(provider: Provider, *messages: Message | str, on_text: Any = None, **how: Any) -> Reply:
    """The reply to one request; raises where it failed."""
    (answer,) = ask_all(provider, [request(*messages, **how)], on_text)
    if isinstance(answer, Failure):
        raise ProviderError(answer)
    return answer


def fail(provider: Provider, *messages: Message | str, **how: Any) -> Failure:
    """The failure of one request."""
    (answer,) = ask_all(provider, [request(*messages, **how)])
    assert isinstance(answer, Failure), f"it did not fail: {answer}"
    return answer
