"""The cases of a sweep: prompts, settings and repeats, each case with an id that a later kernel finds again."""

from __future__ import annotations

import inspect
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

from hermes_nb.agent import Agent
from hermes_nb.lab.fingerprint import described, fingerprint
from hermes_nb.providers.base import is_provider
from hermes_nb.vocabulary.budget import IterationBudget
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from hermes_nb.vocabulary.messages import Content

Agents: TypeAlias = "Agent | Sequence[Agent] | Mapping[str, Agent]"
Prompts: TypeAlias = "str | Iterable[Any]"
Vary: TypeAlias = "Mapping[str, Iterable[Any] | Mapping[str, Any]]"

SETTINGS = frozenset(inspect.signature(Agent.__init__).parameters) - {"self", "name"}
"""Columns of a table of cases that are settings of the agent; all others are labels."""


@dataclass(frozen=True, slots=True)
class Case:
    """One turn of a sweep, before it runs.

    Attributes:
        id: Made of the prompt, the settings, the labels and the repeat: the same in every kernel.
        prompt: The user's message.
        agent: With the settings of this case.
        settings: What was varied, as it stands in the columns.
        labels: Other columns that came with the prompt (an expected answer, a category).
        repeat: From 1.
        fingerprint: Of the agent with these settings.
        seed: Equal for all settings of one prompt and repeat, so that they meet the same injected faults.
    """

    id: str
    prompt: Content
    agent: Agent = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    repeat: int = 1
    seed: int = 0
    fingerprint: str = ""


def cases_of(
    agents: Agents | Iterable[Any], prompts: Prompts | None, vary: Vary, repeats: int, seed: int | None
) -> list[Case]:
    """All cases: each prompt with each combination of settings, `repeats` times.

    Raises:
        ConfigurationError: A prompt is blank, or a setting cannot work.
    """
    if not isinstance(repeats, int) or repeats < 1:
        msg = f"repeats is a whole number, 1 or more, not {repeats!r}"
        raise ConfigurationError(msg)
    made, met, variants = [], Counter[str](), _Variants()
    prints: dict[int, str] = {}
    for agent, row, chosen in _combined(agents, prompts, vary):
        prompt, settings, labels = _parts(row)
        named = chosen | {name: (label_of(value), value) for name, value in settings.items()}
        shown = {name: label for name, (label, _) in named.items()}
        variant = variants.get(agent, {name: value for name, (_, value) in named.items() if name != "agent"}, shown)
        key = json.dumps([prompt, shown, labels], default=repr, sort_keys=True)
        met[key] += 1
        print_ = prints.get(id(variant)) or prints.setdefault(id(variant), fingerprint(described(variant)))
        for repeat in range(1, repeats + 1):
            case_id = blake2b(f"{key}{met[key]}/{repeat}".encode("utf-8", "replace"), digest_size=8).hexdigest()
            made.append(Case(case_id, prompt, variant, shown, labels, repeat, _seed(seed, prompt, repeat), print_))
    if not made:
        msg = "a sweep needs at least one prompt, and one value for each setting that is varied"
        raise ConfigurationError(msg)
    return made


class _Variants:
    """Agents with settings, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, Agent] = {}

    def get(self, agent: Agent, values: Mapping[str, Any], shown: Mapping[str, Any]) -> Agent:
        if not values:
            return agent
        key = f"{id(agent)}{shown}"
        if key not in self._made:
            try:
                self._made[key] = agent.with_(**values)
            except (ValueError, TypeError) as error:
                msg = f"an agent cannot have {shown}: {error}"
                raise ConfigurationError(msg) from error
        return self._made[key]


def _combined(
    agents: Agents | Iterable[Any], prompts: Prompts | None, vary: Vary
) -> Iterable[tuple[Agent, Any, dict[str, Any]]]:
    """Agent, row of the table of prompts, and label and value of each setting that is varied."""
    if prompts is None:
        pairs = [_pair(given) for given in _iterable(agents)]
    else:
        rows, named = list(_rows(prompts)), _agents(agents)
        pairs = [(agent, row) for row in rows for agent in named]
    axes = [[(name, choice) for choice in _choices(name, values)] for name, values in vary.items()]
    for (agent, row), combination in itertools.product(pairs, list(itertools.product(*axes))):
        label, chosen = agent if isinstance(agent, tuple) else ("", agent)
        yield chosen, row, ({"agent": (label, chosen)} if label else {}) | dict(combination)


def _iterable(agents: Any) -> Iterable[Any]:
    if isinstance(agents, Agent) or not isinstance(agents, Iterable):
        msg = "a sweep needs prompts: hn.sweep(agent, prompts), or pairs: hn.sweep([(agent, prompt), ...])"
        raise ConfigurationError(msg)
    return agents


def _pair(given: Any) -> tuple[Any, Any]:
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], Agent):  # noqa: PLR2004  a pair
        msg = f"without prompts, a sweep needs pairs of (agent, prompt), not {given!r}"
        raise ConfigurationError(msg)
    return (given[0].name, given[0]), given[1]


def _agents(agents: Any) -> list[Any]:
    """One agent, or several with the labels that stand in the column `agent`."""
    if isinstance(agents, Agent):
        return [agents]
    named = list(agents.items()) if isinstance(agents, Mapping) else _unique([(a.name, a) for a in agents])
    if not named or not all(isinstance(agent, Agent) for _, agent in named):
        msg = f"a sweep needs an agent, or several of them, not {agents!r}"
        raise ConfigurationError(msg)
    return named


def _choices(name: str, values: Any) -> list[tuple[Any, Any]]:
    """Label and value of each choice of one setting."""
    if isinstance(values, Mapping):
        return list(values.items())
    if isinstance(values, str) or not isinstance(values, Iterable):
        msg = f"vary={{{name!r}: ...}} needs a list of values, or a dict of label to value, not {values!r}"
        raise ConfigurationError(msg)
    return _unique([(label_of(value), _plain(value)) for value in values])


def _unique(named: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The same with a number behind each label that is there again."""
    met, out = Counter[Any](), []
    for label, value in named:
        met[label] += 1
        out.append((label if met[label] == 1 else f"{label} #{met[label]}", value))
    return out


def label_of(value: Any) -> Any:
    """How a setting's value stands in a column: a number or a short text that the next kernel finds again."""
    value = _plain(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_provider(value):
        return f"{value.name}:{value.model}"
    if isinstance(value, IterationBudget):
        return value.view().limit
    if isinstance(value, list | tuple | set | frozenset):
        labels = [str(label_of(item)) for item in value]
        return ", ".join(labels if isinstance(value, list | tuple) else sorted(labels))
    told = getattr(value, "__name__", "") or getattr(getattr(value, "spec", None), "name", "") or repr(value)
    return type(value).__name__ if " at 0x" in told else told


# ------------------------------------------------------------------------------------------- prompts


def _rows(prompts: Any) -> Iterable[Any]:
    if isinstance(prompts, str | Mapping):
        return [prompts]
    if hasattr(prompts, "columns") and hasattr(prompts, "to_dict"):
        rows: list[Any] = prompts.to_dict("records")
        return rows
    if not isinstance(prompts, Iterable):
        msg = f"prompts are texts, dicts with a 'prompt', or a DataFrame with such a column, not {prompts!r}"
        raise ConfigurationError(msg)
    return prompts


def _parts(row: Any) -> tuple[Content, dict[str, Any], dict[str, Any]]:
    """The prompt of a row, the agent's settings, and the labels."""
    if not isinstance(row, Mapping):
        return _checked(row), {}, {}
    if "prompt" not in row:
        msg = f"a case needs a 'prompt'; there are only {', '.join(map(str, row)) or 'no columns'}"
        raise ConfigurationError(msg)
    others = {str(name): value for name, value in row.items() if name != "prompt" and not _missing(value)}
    settings = {name: _whole(_plain(value)) for name, value in others.items() if name in SETTINGS}
    return _checked(row["prompt"]), settings, {n: _plain(v) for n, v in others.items() if n not in SETTINGS}


def _checked(prompt: Any) -> Content:
    if isinstance(prompt, list | tuple) and prompt and all(isinstance(part, dict) for part in prompt):
        return tuple(prompt)
    if not isinstance(prompt, str) or not prompt.strip():
        msg = f"a prompt is a text that is not blank, or content parts, not {prompt!r}"
        raise ConfigurationError(msg)
    return prompt


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124  that is NaN


def _whole(value: Any) -> Any:
    """A whole number as such: a column in which one is missing has made a fraction of it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(value: Any) -> Any:
    """A number or an array of numpy's as Python has it."""
    return value.tolist() if hasattr(value, "tolist") and not is_provider(value) else value


def _seed(seed: int | None, prompt: Content, repeat: int) -> int:
    told = f"{seed}:{prompt}:{repeat}".encode("utf-8", "replace")
    return int.from_bytes(blake2b(told, digest_size=6).digest(), "big")
