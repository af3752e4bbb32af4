"""hermes-agent: `AIAgent.run_conversation`, without its memory, its context files and its pause between tools.

It streams as it ships, keeps no session here, and its own system prompt of some kilobytes stays in each request.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING

from driving import Work, add, drive

os.environ["HERMES_HOME"] = tempfile.mkdtemp(prefix="bench-hermes-agent-")

from run_agent import AIAgent
from tools.registry import registry
from toolsets import create_custom_toolset

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGER = {"type": "integer"}
SCHEMA = {
    "name": "add",
    "description": "Add two integers.",
    "parameters": {"type": "object", "required": ["a", "b"], "properties": {"a": INTEGER, "b": INTEGER}},
}


def make(work: Work) -> Callable[[], object]:
    registry.register(name="add", toolset="bench", schema=SCHEMA, handler=lambda given, **_: json.dumps(add(**given)))
    create_custom_toolset("bench", "One tool", tools=["add"])
    agent = AIAgent(
        base_url=work.url,
        api_key="sk-bench-000001",
        model=work.model,
        max_iterations=work.calls + 2,
        enabled_toolsets=["bench"],
        ephemeral_system_prompt=work.system,
        quiet_mode=True,
        tool_delay=0,
        skip_memory=True,
        skip_context_files=True,
    )
    return lambda: agent.run_conversation(work.prompt, conversation_history=[])


drive(make, "hermes-agent", "openai")
