"""Chaos: which failures a configuration survives, tried one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_nb.lab.faults import Faults
from hermes_nb.lab.injecting import CALLS, REQUESTS, WRITES
from hermes_nb.lab.sweep import sweep
from hermes_nb.lab.wrapping import sub_agents
from hermes_nb.turn.attempts import waiting
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import pandas as pd

    from hermes_nb.agent import Agent
    from hermes_nb.lab.cases import Prompts
    from hermes_nb.lab.study import Study

ASKED_WAIT = 5.0
"""Seconds that a rate limit with `Retry-After` asks to wait."""

SLOW = 0.2
"""Seconds that a slow model takes longer."""

_SUMS = ("iterations", "retries", "fallbacks", "compressions", "tool_calls", "total_tokens")


def chaos(
    agent: Agent,
    prompts: Prompts,
    *,
    parallel: int = 4,
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Try what this configuration survives: every kind of failure, once and lasting; waits for all of it.

    Each kind is tried with the first request of a turn (`once`), with every request to the primary (`primary`, where
    there is a next provider), with every request or tool call of sub-agents alone (`sub_agents`, where there are any),
    and with every request or tool call (`always`). All but `sub_agents` hold for the agent's own turn and for the turns
    of its sub-agents. Waits before retries take no time.

    Args:
        agent: The agent, with its own chain and policies.
        prompts: As for `hermes_nb.sweep`.
        parallel: Turns under way at the same time.
        seed: For the sweep.
        path: The logbook of the turns; a new one in the user's data directory if left out.
        progress: As for `hermes_nb.sweep`.

    Returns:
        One row for each fault and time: `turns`, `survived` (share of completed turns), `exit_reason` (the most
        frequent), `injected`, `injected_below` (those of them in sub-agents' turns), and the mean `iterations`,
        `retries`, `fallbacks`, `compressions`, `tool_calls`, `total_tokens` and `seconds`. `frame.attrs["path"]` is
        the logbook.

    Raises:
        ConfigurationError: The agent injects faults already, or a prompt cannot work.
    """
    if agent.faults is not None:
        msg = f"chaos() injects the faults itself; give it agent.with_(faults=None), not one with {agent.faults!r}"
        raise ConfigurationError(msg)
    variants = {f"{fault}/{when}": faults for fault, when, faults in _variants(agent)}
    token = waiting.set(False)
    try:
        study = sweep(
            agent, prompts, vary={"faults": variants}, parallel=parallel, seed=seed, path=path, progress=progress
        )
    finally:
        waiting.reset(token)
    study.wait()
    return _table(study, list(variants))


def _variants(agent: Agent) -> Iterator[tuple[str, str, Faults | None]]:
    """Fault, time, and what injects it."""
    yield "none", "never", None
    below = frozenset(one.name for one in sub_agents(agent)) - {agent.name}
    kinds: list[tuple[str, str, dict[str, Any]]] = [(kind, kind, {}) for kind in REQUESTS]
    kinds.insert(1, ("rate_limit_wait", "rate_limit", {"retry_after": ASKED_WAIT}))
    for label, kind, more in kinds:
        more = {"seconds": SLOW} | more  # noqa: PLW2901  the same for all
        yield label, "once", Faults(**{kind: {1}, **more})
        if len(agent.models) > 1:
            yield label, "primary", Faults(**{kind: 1.0, "places": {0}, **more})
        if below:
            yield label, "sub_agents", Faults(**{kind: 1.0, "agents": below, **more})
        yield label, "always", Faults(**{kind: 1.0, **more})
    for kind in (*CALLS, *WRITES):
        for when, wanted in (("once", {1}), ("always", 1.0)):
            call: dict[str, Any] = {kind: wanted}
            yield kind, when, Faults(**call)
        if below and kind in CALLS:
            call = {kind: 1.0, "agents": below}
            yield kind, "sub_agents", Faults(**call)


def _table(study: Study, order: list[str]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415  heavy; loaded on first use

    turns = study.turns_df()
    groups = turns.groupby("faults")
    frame = pd.DataFrame({"turns": groups.size(), "survived": groups["completed"].mean().astype(float)})
    frame["exit_reason"] = groups["exit_reason"].agg(lambda reasons: str(reasons.mode().iloc[0]))
    injected = _injected(study)
    for name, hit in (("injected", injected), ("injected_below", injected[injected["below"]])):
        frame[name] = hit["faults"].value_counts().reindex(frame.index, fill_value=0).astype("Int64")
    frame = frame.join(groups[[*_SUMS, "seconds"]].mean().astype(float)).reindex(order).dropna(subset=["turns"])
    names = [name.partition("/") for name in frame.index]
    frame.insert(0, "fault", [fault for fault, _, _ in names])
    frame.insert(1, "when", [when for _, _, when in names])
    frame = frame.reset_index(drop=True).astype({"turns": "Int64"})
    frame.attrs["path"] = str(study.path)
    return frame


def _injected(study: Study) -> pd.DataFrame:
    """Each request, tool call and write that failed because it was told to: its variant, and whether a sub-agent's."""
    import pandas as pd  # noqa: PLC0415  heavy; loaded on first use

    attempts, calls, told = study.attempts_df(), study.tool_calls_df(), study.events_df()
    hit = [
        attempts[attempts["injected"].notna()],
        calls[calls["error_type"].astype("string").str.startswith("injected_", na=False)],
        told[
            (told["name"] == "hermes.degraded")
            & told["attributes_json"].str.contains("(injected)", regex=False, na=False)
        ],
    ]
    where: pd.DataFrame = pd.concat([frame[["faults", "turn_id"]].astype("string") for frame in hit])
    own = study.turns_df()["turn_id"].astype("string")
    return where.assign(below=~where["turn_id"].isin(own))
