"""One case being run, here or on a worker; what is sent there and what comes back can be pickled."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_nb.lab.faults import Faults
from hermes_nb.lab.scoring import scored
from hermes_nb.session import Session
from hermes_nb.turn.attempts import waiting
from hermes_nb.vocabulary.failures import in_words

if TYPE_CHECKING:
    from hermes_nb.agent import Agent
    from hermes_nb.lab.cases import Case
    from hermes_nb.lab.scoring import Scorer
    from hermes_nb.lab.slots import Slots
    from hermes_nb.turn.result import TurnResult

LOOK = 0.2
"""Seconds between two looks at whether the study was stopped, while a turn runs."""

Row = dict[str, Any]


def _me() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Place:
    """The files of a study, as seen from any process that works for it; they must be on a disk that all of them see.

    Attributes:
        path: The logbook of the process that owns the study.
        owner: Names that process.
    """

    path: Path
    owner: str = field(default_factory=_me)

    @property
    def logbook(self) -> Path:
        """Where this process keeps its turns."""
        return self.path if _me() == self.owner else self.parts / f"{_me()}.db"

    @property
    def parts(self) -> Path:
        """The folder of the logbooks of all other processes."""
        return Path(f"{self.path}.parts")

    @property
    def rows(self) -> Path:
        """One line for each case that ended."""
        return Path(f"{self.path}.rows.jsonl")

    @property
    def stop(self) -> Path:
        """There while the study is to stop."""
        return Path(f"{self.path}.stop")

    @property
    def begun(self) -> Path:
        """The folder that names the cases that other processes have begun."""
        return self.parts / "begun"

    def begin(self, case_id: str) -> bool:
        """Note that a case is begun; False where another process, which was lost then, had begun it."""
        if _me() == self.owner:
            return True
        try:
            self.begun.mkdir(parents=True, exist_ok=True)
            (self.begun / case_id).touch(exist_ok=False)
        except FileExistsError:
            return False
        except OSError:  # a disk in trouble: begun twice is better than not at all
            return True
        return True

    @property
    def slots(self) -> Path:
        """The folder of the places at providers."""
        return Path(f"{self.path}.slots")

    @property
    def lock(self) -> Path:
        """Held by the process that owns the study."""
        return Path(f"{self.path}.lock")

    def logbooks(self) -> list[Path]:
        """All logbooks that there are."""
        return [path for path in (self.path, *sorted(self.parts.glob("*.db"))) if path.exists()]


@dataclass(frozen=True, slots=True)
class Work:
    """All that a worker needs for one case."""

    case: Case
    place: Place
    score: Scorer | None = None
    waiting: bool = True
    slots: Slots | None = None


def run_case(work: Work) -> Row | None:
    """Run one case to its end, keep its turn, and give its row; None when the study was stopped before.

    Whatever happens to the turn is told in the row.
    """
    case, place = work.case, work.place
    if place.stop.exists():
        return None
    if not place.begin(case.id) and (row := _ended(work)) is not None:
        return row
    token = waiting.set(work.waiting)
    try:
        session = Session(place.logbook, id=f"{case.id}-{uuid.uuid4().hex[:8]}")
        agent = _seeded(case) if work.slots is None else work.slots(_seeded(case))
        run = agent.start(case.prompt, session=session, metadata=_metadata(case))
        stopped = False
        while not run.wait(LOOK):
            if not stopped and place.stop.exists():
                stopped = run.interrupt()
        result = run._future.result()  # noqa: SLF001  run.result() raises the bug that ended a turn; here it is a row
        return row_of(case, result, work.score)
    except Exception as error:  # noqa: BLE001  a case that could not start is a row
        return error_row(case, error)
    finally:
        waiting.reset(token)


def _ended(work: Work) -> Row | None:
    """The row of a case whose turn ended before its worker was lost."""
    from hermes_nb.lab.journal import kept_rows  # noqa: PLC0415  it needs the rows made here

    kept = kept_rows(work.place, {work.case.id: work.case}, work.score)
    return next((row for row in kept if row["fingerprint"] == work.case.fingerprint), None)


def _seeded(case: Case) -> Agent:
    """The agent of a case; its injected faults differ from repeat to repeat, and are the same for all settings."""
    faults = case.agent.faults
    if not isinstance(faults, Faults):
        return case.agent
    return case.agent.with_(faults=replace(faults, seed=faults.seed + case.seed))


def _metadata(case: Case) -> dict[str, Any]:
    return {"case_id": case.id, "repeat": case.repeat, "fingerprint": case.fingerprint, **case.labels}


def row_of(case: Case, result: TurnResult, score: Scorer | None) -> Row:
    """The row of a case whose turn is over."""
    usage, budget = result.usage, result.budget
    return about(case) | {
        "turn_id": result.turn_id,
        "conversation_id": result.conversation_id,
        "exit_reason": result.exit_reason.value,
        "completed": result.completed,
        "failed": result.failed,
        "interrupted": result.interrupted,
        "text": result.text,
        "provider": result.provider,
        "model": result.model,
        **{name: getattr(result, name) for name in COUNTS},
        "budget_limit": budget.limit,
        "budget_used": budget.used,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cost_usd": result.cost_usd,
        "seconds": result.seconds,
        "worker": _me(),
        "fingerprint": case.fingerprint,
        "error": str(result.failure or result.detail) if result.failed else None,
        **scored(score, result, case),
    }


COUNTS = ("iterations", "api_calls", "retries", "fallbacks", "compressions", "refunds", "graces", "tool_calls")
"""Numbers that a row takes from the result as they are."""


def error_row(case: Case, error: BaseException) -> Row:
    """The row of a case of which no turn came: it is run again when the study is resumed."""
    return about(case) | {"completed": False, "failed": True, "error": in_words(error)}


def about(case: Case) -> Row:
    """The columns that are known before a case runs."""
    return {
        "case_id": case.id,
        "prompt": case.prompt if isinstance(case.prompt, str) else repr(case.prompt),
        **case.labels,
        **case.settings,
        "repeat": case.repeat,
        "seed": case.seed,
    }


def is_final(row: Row) -> bool:
    """Whether the case need not run again: its turn ended, and nobody stopped it."""
    return bool(row.get("turn_id")) and not row.get("interrupted")
