"""Turns as data sets, and prompts out of data sets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hermes_nb.lab.recording import recording_of
from hermes_nb.lab.study import Study
from hermes_nb.lab.trajectories import FORMS, Trajectory
from hermes_nb.logbook import Logbook
from hermes_nb.run import Run
from hermes_nb.session import Session
from hermes_nb.turn.result import TurnResult
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

Turns: TypeAlias = "Study | Session | Logbook | Run | TurnResult | str | os.PathLike[str] | Iterable[Run | TurnResult]"


def trajectories(source: Turns) -> Iterator[Trajectory]:
    """The turns of a source, whatever became of them, each with all that was said; sub-agents' turns left out.

    Args:
        source: A study, a session, a logbook or its path, a run, a result, or several runs or results.

    Raises:
        ConfigurationError: The source is none of these.
    """
    if isinstance(source, Run | TurnResult):
        yield Trajectory.of(recording_of(source))
    elif isinstance(source, Study):
        wanted = set(source.turns_df()["turn_id"].dropna())
        for path in source.logbooks:
            yield from _stored(Logbook(path), lambda turn: turn.id in wanted)
    elif isinstance(source, Session):
        yield from _stored(source.logbook, lambda turn: turn.conversation_id == source.id)
    elif isinstance(source, Logbook):
        yield from _stored(source, lambda _: True)
    elif isinstance(source, str) or hasattr(source, "__fspath__"):
        yield from _stored(Logbook(_existing(source)), lambda _: True)
    elif isinstance(source, Iterable):
        for one in source:
            yield from trajectories(one)
    else:
        msg = f"turns come from a study, a session, a logbook, a run or a result, not {source!r}"
        raise ConfigurationError(msg)


def save_dataset(
    source: Turns,
    path: str | os.PathLike[str],
    *,
    form: Literal["chat", "sharegpt"] = "chat",
    where: Callable[[Trajectory], bool] | None = None,
) -> int:
    """Write turns as JSON lines, one for each turn, with its tokens, cost and seconds.

    The messages are those of the conversation before the turn and of the turn, each once and whole: what a compression
    took out of the history is still there, and its summary is not.

    Args:
        source: A study, a session, a logbook or its path, a run, a result, or several runs or results.
        path: The file; written anew.
        form: `chat` for `messages` and `tools` as model servers take them for fine-tuning; `sharegpt` for
            `conversations` of system, human, gpt and tool, with `<think>`, `<tool_call>` and `<tool_response>`.
        where: Which turns to keep, for example `lambda turn: turn.completed`; all if left out.

    Returns:
        How many lines were written.

    Raises:
        ConfigurationError: There is no such form or source.
    """
    if form not in FORMS:
        msg = f"there is no form {form!r}; there are {', '.join(FORMS)}"
        raise ConfigurationError(msg)
    lines = 0
    with Path(path).open("w", encoding="utf-8", errors="surrogateescape") as file:
        for turn in trajectories(source):
            if where is None or where(turn):
                file.write(json.dumps(turn.as_dict(form), default=repr) + "\n")
                lines += 1
    return lines


def _stored(logbook: Logbook, wanted: Callable[[Any], bool]) -> Iterator[Trajectory]:
    for turn in logbook.turns():
        if not turn.parent_turn_id and wanted(turn):
            yield Trajectory.of(recording_of(turn.id, logbook.path))


def _existing(path: Any) -> Path:
    if not (found := Path(path)).exists():
        msg = f"there is no logbook {str(path)!r}"
        raise ConfigurationError(msg)
    return found


# ------------------------------------------------------------------------------------------- prompts


def load_prompts(source: Any, *, prompt: str = "prompt", limit: int | None = None) -> list[dict[str, Any]]:
    """Cases for a sweep out of a data set: dicts with a `prompt`; the other columns are kept.

    Args:
        source: A file (`.jsonl`, `.csv`, `.tsv`, `.parquet`, `.json`), a DataFrame, a `datasets.Dataset` of Hugging
            Face, or anything that gives mappings.
        prompt: The column that holds the prompts.
        limit: So many at most, the first ones.

    Raises:
        ConfigurationError: There is no such file, form or column.
    """
    rows = []
    for number, row in enumerate(_records(source), 1):
        if limit is not None and number > limit:
            break
        if not isinstance(row, Mapping) or prompt not in row:
            there = ", ".join(map(str, row)) if isinstance(row, Mapping) else repr(row)
            msg = f"row {number} has no column {prompt!r}; there is {there}"
            raise ConfigurationError(msg)
        rows.append({"prompt": row[prompt]} | {str(name): value for name, value in row.items() if name != prompt})
    return rows


def _records(source: Any) -> Iterable[Any]:
    if isinstance(source, str) or hasattr(source, "__fspath__"):
        return _file(Path(source))
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        records: list[Any] = source.to_dict("records")
        return records
    if not isinstance(source, Iterable):
        msg = f"prompts come from a file, a DataFrame or mappings, not {source!r}"
        raise ConfigurationError(msg)
    return source


def _file(path: Path) -> Iterable[Any]:
    import pandas as pd  # noqa: PLC0415  heavy; loaded on first use

    readers: dict[str, Callable[[Path], Any]] = {
        ".csv": pd.read_csv,
        ".tsv": lambda file: pd.read_csv(file, sep="\t"),
        ".parquet": pd.read_parquet,
        ".json": lambda file: json.loads(file.read_text("utf-8")),
        ".jsonl": lambda file: [json.loads(line) for line in file.read_text("utf-8").split("\n") if line.strip()],
    }
    if not path.is_file():
        msg = f"there is no file {str(path)!r}"
        raise ConfigurationError(msg)
    if path.suffix.lower() not in readers:
        msg = f"{str(path)!r} is no file of prompts; known are {', '.join(readers)}"
        raise ConfigurationError(msg)
    try:
        return _records(readers[path.suffix.lower()](path))
    except (ValueError, OSError) as error:
        msg = f"{str(path)!r} cannot be read: {error}"
        raise ConfigurationError(msg) from error
