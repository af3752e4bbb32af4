"""Scores of a case: by a function, or by an agent as the judge."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from hermes_nb.agent import Agent
from hermes_nb.vocabulary.failures import in_words

if TYPE_CHECKING:
    from hermes_nb.lab.cases import Case
    from hermes_nb.turn.result import TurnResult

Scorer: TypeAlias = "Callable[..., Any] | Agent"
"""`score(result)` or `score(result, case)`: a number, a truth value, or a dict of them; or an agent that judges."""

QUESTION = """Judge an answer. Say how good it is with one number from 0 (useless) to 1 (perfect), and nothing else.

<task>
{task}
</task>
<answer>
{answer}
</answer>
<notes>
{notes}
</notes>"""


def scored(score: Scorer | None, result: TurnResult, case: Case) -> dict[str, Any]:
    """The columns that the scorer gives: `score`, or `score_<name>` for each name of a dict, or `score_error`."""
    if score is None:
        return {"score": None}
    try:
        value = _judged(score, result, case) if isinstance(score, Agent) else _called(score, result, case)
        if isinstance(value, Mapping):
            return {"score": None} | {f"score_{name}": _number(one) for name, one in value.items()}
        return {"score": _number(value)}
    except Exception as error:  # noqa: BLE001  a score that cannot be given loses no turn
        return {"score": None, "score_error": in_words(error)}


def _called(score: Callable[..., Any], result: TurnResult, case: Case) -> Any:
    takes = [p for p in inspect.signature(score).parameters.values() if p.default is p.empty]
    return score(result) if len(takes) == 1 else score(result, case)


def _judged(judge: Agent, result: TurnResult, case: Case) -> float:
    notes = "\n".join(f"{name}: {value}" for name, value in case.labels.items()) or "none"
    question = QUESTION.format(task=case.prompt, answer=result.text or "(no answer)", notes=notes)
    said = judge.run(question, session=False).raise_for_failure().text
    found: list[str] = re.findall(r"(?<![\d.])(?:0?\.\d+|[01](?:\.\d+)?)(?![\d.]*\d)", said)
    if not found:
        msg = f"the judge gave no number from 0 to 1 but {said[:200]!r}"
        raise ValueError(msg)
    return float(found[-1])


def _number(value: Any) -> float | str | None:
    return value if value is None or isinstance(value, str) else float(value)
