"""Run, watch, steer and dissect LLM-agent turns in Jupyter.

    import hermes_nb as hn

    agent = hn.Agent(hn.Local(), tools=[my_function], budget=8)
    run = agent.start("...")        # in a cell: the live panel
    run.result().text

Names of the layers that need pandas, a notebook or a plotting library are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermes_nb._edges import LazyEdges
from hermes_nb.agent import Agent
from hermes_nb.policies.compression import Compression
from hermes_nb.policies.guard import RateGuard
from hermes_nb.policies.guardrails import Guardrails
from hermes_nb.policies.limits import BudgetNotice, Ceiling, Delegation, Grace, Refund
from hermes_nb.policies.retry import Retry
from hermes_nb.providers.base import ModelRequest, OnText, Provider, as_provider
from hermes_nb.run import Run
from hermes_nb.session import Session
from hermes_nb.tools.context import ToolContext, ToolFailed
from hermes_nb.tools.definition import tool
from hermes_nb.tools.toolbox import Toolbox
from hermes_nb.turn.result import ExitReason, TurnResult
from hermes_nb.vocabulary.budget import BudgetView, IterationBudget
from hermes_nb.vocabulary.events import Event
from hermes_nb.vocabulary.failures import (
    ConfigurationError,
    Failure,
    FailureReason,
    HermesError,
    ProviderError,
    ReplayMismatch,
    RunInProgress,
    ToolDefinitionError,
    TraceError,
    TurnFailed,
    UnreadableTrace,
)
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, ToolResult, Usage

if TYPE_CHECKING:
    from hermes_nb.lab.cassette import record
    from hermes_nb.lab.chaos import chaos
    from hermes_nb.lab.compare import compare
    from hermes_nb.lab.datasets import load_prompts, save_dataset
    from hermes_nb.lab.faults import Faults
    from hermes_nb.lab.inspecting import to_inspect
    from hermes_nb.lab.replay import replay
    from hermes_nb.lab.study import Study
    from hermes_nb.lab.sweep import sweep
    from hermes_nb.policies.prices import price
    from hermes_nb.providers.anthropic import Anthropic
    from hermes_nb.providers.credentials import CredentialPool
    from hermes_nb.providers.http import Timeouts
    from hermes_nb.providers.local import Local
    from hermes_nb.providers.mixture import Mixture
    from hermes_nb.providers.openai_chat import OpenAIChat
    from hermes_nb.telemetry import capture
    from hermes_nb.tools.checkpoints import Checkpoints
    from hermes_nb.tools.mcp import MCP
    from hermes_nb.traces import Trace, Traces, load
    from hermes_nb.widgets.magics import load_ipython_extension, unload_ipython_extension

_HOMES = {
    "Anthropic": "hermes_nb.providers.anthropic",
    "Checkpoints": "hermes_nb.tools.checkpoints",
    "CredentialPool": "hermes_nb.providers.credentials",
    "Faults": "hermes_nb.lab.faults",
    "Local": "hermes_nb.providers.local",
    "MCP": "hermes_nb.tools.mcp",
    "Mixture": "hermes_nb.providers.mixture",
    "OpenAIChat": "hermes_nb.providers.openai_chat",
    "Study": "hermes_nb.lab.study",
    "Timeouts": "hermes_nb.providers.http",
    "Trace": "hermes_nb.traces",
    "Traces": "hermes_nb.traces",
    "capture": "hermes_nb.telemetry",
    "chaos": "hermes_nb.lab.chaos",
    "compare": "hermes_nb.lab.compare",
    "load": "hermes_nb.traces",
    "load_ipython_extension": "hermes_nb.widgets.magics",
    "load_prompts": "hermes_nb.lab.datasets",
    "price": "hermes_nb.policies.prices",
    "record": "hermes_nb.lab.cassette",
    "replay": "hermes_nb.lab.replay",
    "save_dataset": "hermes_nb.lab.datasets",
    "sweep": "hermes_nb.lab.sweep",
    "to_inspect": "hermes_nb.lab.inspecting",
    "unload_ipython_extension": "hermes_nb.widgets.magics",
}
"""Where the names are that are loaded on first use."""

__all__ = [  # noqa: RUF022  the nouns first, then everything else by the alphabet
    "Agent",
    "Run",
    "Session",
    "Trace",
    "Traces",
    "TurnResult",
    "Anthropic",
    "BudgetNotice",
    "BudgetView",
    "Ceiling",
    "Checkpoints",
    "Compression",
    "ConfigurationError",
    "CredentialPool",
    "Delegation",
    "Event",
    "ExitReason",
    "Failure",
    "FailureReason",
    "Faults",
    "Grace",
    "Guardrails",
    "HermesError",
    "IterationBudget",
    "Local",
    "MCP",
    "Message",
    "Mixture",
    "ModelRequest",
    "OnText",
    "OpenAIChat",
    "Provider",
    "ProviderError",
    "RateGuard",
    "Refund",
    "ReplayMismatch",
    "Reply",
    "Retry",
    "RunInProgress",
    "Study",
    "Timeouts",
    "ToolCall",
    "ToolContext",
    "ToolDefinitionError",
    "ToolFailed",
    "ToolResult",
    "Toolbox",
    "TraceError",
    "TurnFailed",
    "UnreadableTrace",
    "Usage",
    "as_provider",
    "capture",
    "chaos",
    "compare",
    "load",
    "load_ipython_extension",
    "load_prompts",
    "price",
    "record",
    "replay",
    "save_dataset",
    "sweep",
    "to_inspect",
    "tool",
    "unload_ipython_extension",
]

Run.edges = LazyEdges()


def __getattr__(name: str) -> Any:
    """Load a name of another layer on first use."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """All public names, also those not loaded yet."""
    return sorted({*globals(), *_HOMES})
