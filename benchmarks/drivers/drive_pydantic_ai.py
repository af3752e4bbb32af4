"""pydantic-ai: `Agent.run`, in one event loop for all turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from driving import Work, add, drive
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

if TYPE_CHECKING:
    from collections.abc import Callable


def make(work: Work) -> Callable[[], object]:
    model = OpenAIChatModel(work.model, provider=OpenAIProvider(base_url=work.url, api_key="sk-bench-000001"))
    agent = Agent(model, instructions=work.system, tools=[add])
    unlimited = UsageLimits(request_limit=None)
    runner = asyncio.Runner()
    return lambda: runner.run(agent.run(work.prompt, usage_limits=unlimited))


drive(make, "pydantic-ai-slim", "openai")
