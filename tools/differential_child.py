"""Runs one turn of the original; started by `differential.py` in an environment of its own.

Arguments: the server's URL and the budget. Prints one JSON line: the answer's flags.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

os.environ["HERMES_HOME"] = tempfile.mkdtemp(prefix="differential-")

from run_agent import AIAgent  # type: ignore[import-not-found]
from tools.registry import registry  # type: ignore[import-not-found]
from toolsets import create_custom_toolset  # type: ignore[import-not-found]

SCHEMA = {
    "name": "population",
    "description": "Inhabitants of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}

registry.register(
    name="population", toolset="differential", schema=SCHEMA, handler=lambda *_, **__: json.dumps({"people": 522_000})
)
create_custom_toolset("differential", "One tool", tools=["population"])
agent = AIAgent(
    base_url=sys.argv[1],
    api_key="sk-differential-01",
    model="m",
    max_iterations=int(sys.argv[2]),
    enabled_toolsets=["differential"],
    quiet_mode=True,
    tool_delay=0,
    skip_memory=True,
    skip_context_files=True,
)
answer = agent.run_conversation("How many people live in Lyon?", conversation_history=[])
print(json.dumps({key: answer.get(key) for key in ("final_response", "completed", "failed", "api_calls")}, default=str))
