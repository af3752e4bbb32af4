"""Sweeps: prompts, settings and repeats, run side by side, resumed after a kernel's death; and chaos."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hermes_nb.lab.cases import cases_of
from hermes_nb.lab.casework import Place
from hermes_nb.lab.changes import IfChanged
from hermes_nb.lab.study import Study
from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.places import home
from hermes_nb.widgets import in_a_notebook, show_study

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from hermes_nb.lab.cases import Agents, Prompts, Vary
    from hermes_nb.lab.executors import Executor
    from hermes_nb.lab.scoring import Scorer
    from hermes_nb.lab.study import Progress


def sweep(  # noqa: PLR0913  one argument for each question, all but two by keyword
    agent: Agents | Iterable[tuple[Any, Any]],
    prompts: Prompts | None = None,
    *,
    vary: Vary | None = None,
    repeats: int = 1,
    parallel: int = 8,
    concurrency: Mapping[str, int] | int | None = None,
    seed: int | None = None,
    score: Scorer | None = None,
    executor: Executor | None = None,
    path: str | os.PathLike[str] | None = None,
    if_changed: IfChanged = "refuse",
    progress: bool = True,
) -> Study:
    """Run many turns side by side: every prompt with every combination of settings; returns at once.

    A failure is a row, not an exception. Every turn is kept in the study's logbook; a sweep that is started again with
    the same `path` runs only the cases that are not finished, also after the death of the kernel.

    Args:
        agent: The agent, several of them (a list, or a dict of label to agent), or pairs of (agent, prompt).
        prompts: Texts; dicts or a DataFrame with a column `prompt`, whose other columns are settings of the agent, if
            they are called like one, or labels of yours; left out where `agent` is pairs.
        vary: For each setting of `Agent.with_` its values, as a list or as a dict of label to value.
        repeats: How often each case is run.
        parallel: Cases under way at the same time, over all workers.
        concurrency: Requests under way at each provider at the same time, over all workers; a dict for some of the
            providers, by name. A request waits for its place as part of its attempt. None limits nothing.
        seed: Cases run in a shuffled order, so that what drifts hits all settings alike; also part of each case's own
            seed.
        score: `score(result)` or `score(result, case)` gives a number, or a dict of them; an agent is asked to judge.
        executor: A `concurrent.futures.Executor`, a `dask.distributed.Client`, or anything with their
            `submit(function, *args)`; threads of this process if left out. The workers must see `path`.
        path: The study's logbook; a new one in the user's data directory if left out.
        if_changed: What becomes of the finished cases of a study that is started again with an agent that is not the
            same any more, seen by a fingerprint of its settings: `refuse` says what differs, `keep` counts them and
            runs the others with the agent as it is now, `rerun` runs them again.
        progress: Show how far it is: the panel in a notebook, a bar elsewhere.

    Returns:
        The study: `wait()`, `turns_df()`, `compare("budget")`, `stop()`.

    Raises:
        ConfigurationError: A prompt, a setting or a path cannot work, or an agent has changed since cases of the study
            were run; said before anything runs.
    """
    if not isinstance(parallel, int) or parallel < 1:
        msg = f"parallel is a whole number, 1 or more, not {parallel!r}"
        raise ConfigurationError(msg)
    if if_changed not in get_args(IfChanged):
        msg = f"if_changed is one of {get_args(IfChanged)}, not {if_changed!r}"
        raise ConfigurationError(msg)
    _check_concurrency(concurrency)
    cases = cases_of(agent, prompts, vary or {}, repeats, seed)
    study = Study(cases, Place(_place(path)), score)
    study._start(executor, parallel, seed, concurrency, if_changed)  # noqa: SLF001  a study is started by its sweep only
    if progress and in_a_notebook():
        show_study(study)
    elif progress:
        study.subscribe(_Bar(len(cases)))
    return study


def _check_concurrency(wanted: Any) -> None:
    numbers = wanted.values() if isinstance(wanted, Mapping) else (1 if wanted is None else wanted,)
    if not all(isinstance(number, int) and number > 0 for number in numbers):
        msg = f"concurrency is 1 or more, or a dict of provider to such a number, not {wanted!r}"
        raise ConfigurationError(msg)


def _place(path: str | os.PathLike[str] | None) -> Path:
    if path is not None:
        return Path(path).expanduser().absolute()
    return home() / "sweeps" / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{secrets.token_hex(3)}.db"


class _Bar:
    """A progress bar on the standard error of a script."""

    def __init__(self, total: int) -> None:
        from tqdm import tqdm  # noqa: PLC0415  loaded with the first bar

        self._bar = tqdm(total=total, desc="sweep", unit="turn", dynamic_ncols=True)

    def __call__(self, now: Progress) -> None:
        ends = {reason: count for reason, count in now["exit_reasons"].items() if reason != "completed"}
        self._bar.set_postfix(ends, refresh=False)
        self._bar.update(now["done"] - self._bar.n)
        if now["state"] != "running":
            self._bar.close()
