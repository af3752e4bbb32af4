"""A sweep in a process of its own, to be killed: `python sweeping.py URL PATH CASES`."""

from __future__ import annotations

import sys

import hermes_nb as hn
from hermes_nb.testing import no_waiting


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000}.get(city, 0)


def agent(url: str) -> hn.Agent:
    """An agent over a server, with faults; it can be pickled."""
    return hn.Agent(
        hn.OpenAIChat("m", base_url=url, api_key="sk-sweep-0001"),
        tools=[population],
        guard=None,
        faults=hn.Faults(rate_limit=0.1, timeout=0.05, cut=0.05, empty=0.05, tool_error=0.1, seed=3),
    )


def prompts(count: int) -> list[dict[str, object]]:
    """Prompts with a label."""
    return [{"prompt": f"question {number}", "expected": number} for number in range(count)]


def sweep(url: str, path: str, count: int, **options: object) -> hn.Study:
    """The study."""
    with no_waiting():
        return hn.sweep(
            agent(url),
            prompts(count),
            vary={"budget": [3, 6]},
            path=path,
            seed=1,
            score=score,
            progress=False,
            **options,
        )


def score(result: hn.TurnResult, case: object) -> float:
    """How long the answer is."""
    return float(len(result.text))


if __name__ == "__main__":
    study = sweep(sys.argv[1], sys.argv[2], int(sys.argv[3]), parallel=6)
    study.wait()
    print(study.progress["done"], flush=True)
