"""langgraph: the agent of langchain, a graph of a model and its tools."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from driving import Work, add, drive
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

if TYPE_CHECKING:
    from collections.abc import Callable


def make(work: Work) -> Callable[[], object]:
    model = ChatOpenAI(model=work.model, base_url=work.url, api_key="sk-bench-000001")
    graph = create_agent(model, [add], system_prompt=work.system)
    steps = {"recursion_limit": 4 * work.calls + 10}
    runner = asyncio.Runner()
    return lambda: runner.run(graph.ainvoke({"messages": [{"role": "user", "content": work.prompt}]}, steps))


drive(make, "langgraph", "langchain", "openai")
