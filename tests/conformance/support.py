"""What the conformance tests share: an agent over the scripted server, and what the server saw of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hermes_nb as hn
from hermes_nb.testing import no_waiting, span_tree

if TYPE_CHECKING:
    from tests.support.server import Received, Server

PEOPLE = {"Lyon": 522_000, "Lille": 236_000}


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return PEOPLE[city]


@hn.tool
def todo_tool(items: list[str]) -> str:
    """Keeps a list."""
    return f"{len(items)} items kept"


def provider(server: Server, *, model: str = "m", key: str = "sk-conformance-0001", **settings: Any) -> hn.OpenAIChat:
    """The scripted server as a provider."""
    return hn.OpenAIChat(model, base_url=server.url, api_key=key, **settings)


def agent(*servers: Server, model: dict[str, Any] | None = None, **settings: Any) -> hn.Agent:
    """An agent whose chain is these servers."""
    chain = [provider(server, model=f"m{number}", **(model or {})) for number, server in enumerate(servers)]
    return hn.Agent(chain, **({"tools": [population], "budget": 8} | settings))


def run(agent: hn.Agent, prompt: str = "How many people live in Lyon?", **options: Any) -> hn.TurnResult:
    """A turn without real waits; its bugs are raised."""
    with no_waiting():
        return agent.run(prompt, **({"session": False} | options))


def waits(result: hn.TurnResult) -> list[float]:
    """The planned waits before each retry, in seconds."""
    return [wait.total_seconds() for wait in result.trace.retries_df().wait]


def tree(result: hn.TurnResult) -> str:
    """The span tree."""
    return span_tree(result.trace)


def texts(request: Received) -> list[str]:
    """The texts of a request's messages, the system prompt left out."""
    return [message["content"] for message in request.messages if message["role"] != "system"]


def roles(request: Received) -> list[str]:
    """The roles of a request's messages, the system prompt left out."""
    return [message["role"] for message in request.messages if message["role"] != "system"]
