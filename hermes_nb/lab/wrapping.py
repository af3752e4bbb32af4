"""Providers around providers: what all that stand between a turn and a model have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hermes_nb.delegation import AgentTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hermes_nb.agent import Agent
    from hermes_nb.providers.base import Provider
    from hermes_nb.tools.definition import Tool


def with_models(agent: Agent, wrap: Callable[[Provider], Provider]) -> Agent:
    """The agent with each of its models, and of its sub-agents', in a wrapper."""

    def wrapped(tool: Tool) -> Tool:
        return replace(tool, agent=with_models(tool.agent, wrap)) if isinstance(tool, AgentTool) else tool

    tools = agent.toolbox.with_(map(wrapped, agent.toolbox.tools.values()))
    return agent.with_(models=list(map(wrap, agent.models)), tools=tools)


def sub_agents(agent: Agent) -> Iterator[Agent]:
    """The agents below an agent, at any depth."""
    for tool in agent.toolbox.tools.values():
        if isinstance(tool, AgentTool):
            yield tool.agent
            yield from sub_agents(tool.agent)


@dataclass(frozen=True)
class WrappedProvider:
    """A provider that is the one inside in all but how it connects.

    The properties are spelled out, for type checkers see no others.
    """

    inner: Provider

    @property
    def name(self) -> str:
        """That of the provider inside, as are all properties."""
        return self.inner.name

    @property
    def model(self) -> str:
        """The model asked for."""
        return self.inner.model

    @property
    def identity(self) -> str:
        """The quota that is used."""
        return self.inner.identity

    @property
    def context_window(self) -> int | None:
        """Tokens, if known."""
        return self.inner.context_window

    @property
    def address(self) -> tuple[str, int | None]:
        """Host and port."""
        return self.inner.address

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Request parameters."""
        return self.inner.parameters

    @property
    def stream(self) -> bool:
        """Whether replies are streamed."""
        return self.inner.stream

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must never appear anywhere."""
        return self.inner.secrets
