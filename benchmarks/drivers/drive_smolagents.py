"""smolagents: `ToolCallingAgent.run`.

A turn ends with a call of its own tool `final_answer`, which the server knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from driving import Work, add, drive
from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool

if TYPE_CHECKING:
    from collections.abc import Callable


def make(work: Work) -> Callable[[], object]:
    model = OpenAIModel(model_id=work.model, api_base=work.url, api_key="sk-bench-000001")
    options = {"instructions": work.system, "max_steps": work.calls + 2, "verbosity_level": LogLevel.OFF}
    agent = ToolCallingAgent(tools=[tool(add)], model=model, **options)
    return lambda: agent.run(work.prompt)


drive(make, "smolagents", "openai")
