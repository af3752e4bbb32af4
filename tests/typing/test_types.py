"""The public API, as the type checkers see it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

API = Path(__file__).with_name("api.py")


@pytest.mark.timeout(300)
def test_a_second_type_checker_agrees_with_the_api_as_it_is_documented(tmp_path):
    settings = tmp_path / "pyrightconfig.json"
    strictness = {"typeCheckingMode": "standard", "include": [str(API)], "pythonVersion": "3.11"}
    settings.write_text(json.dumps(strictness), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--project", str(settings), "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--level", "error"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_public_names_are_these():
    import hermes_nb
    from hermes_nb import testing, traces

    assert sorted(hermes_nb.__all__) == PUBLIC
    assert sorted(testing.__all__) == ["call", "calls", "fails", "no_waiting", "say", "script", "span_tree"]
    assert sorted(traces.__all__) == ["Trace", "Traces", "concat", "convert", "load", "span_tree"]


PUBLIC = sorted(
    [
        # the five nouns
        "Agent", "Run", "TurnResult", "Trace", "Traces", "Session",
        # models
        "Anthropic", "CredentialPool", "Local", "Mixture", "ModelRequest", "OnText", "OpenAIChat", "Provider",
        "Timeouts", "as_provider", "price",
        # tools
        "Checkpoints", "MCP", "ToolContext", "ToolFailed", "Toolbox", "tool",
        # policies
        "BudgetNotice", "Ceiling", "Compression", "Delegation", "Grace", "Guardrails", "IterationBudget", "RateGuard",
        "Refund", "Retry",
        # what comes out
        "BudgetView", "Event", "ExitReason", "Failure", "FailureReason", "Message", "Reply", "ToolCall",
        "ToolResult", "Usage",
        # traces
        "capture", "load", "load_ipython_extension", "unload_ipython_extension",
        # the lab
        "Faults", "Study", "chaos", "compare", "load_prompts", "record", "replay", "save_dataset",
        "sweep", "to_inspect",
        # errors
        "ConfigurationError", "HermesError", "ProviderError", "ReplayMismatch", "RunInProgress", "ToolDefinitionError",
        "TraceError", "TurnFailed", "UnreadableTrace",
    ]
)  # fmt: skip
