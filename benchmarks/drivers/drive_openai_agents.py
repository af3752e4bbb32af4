"""openai-agents: `Runner.run` over the chat completions API, without its tracing, which sends to a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from driving import Work, add, drive
from openai import AsyncOpenAI

if TYPE_CHECKING:
    from collections.abc import Callable


def make(work: Work) -> Callable[[], object]:
    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(base_url=work.url, api_key="sk-bench-000001")
    model = OpenAIChatCompletionsModel(model=work.model, openai_client=client)
    agent = Agent(name="bench", instructions=work.system, tools=[function_tool(add)], model=model)
    runner = asyncio.Runner()
    return lambda: runner.run(Runner.run(agent, work.prompt, max_turns=work.calls + 2))


drive(make, "openai-agents", "openai")
