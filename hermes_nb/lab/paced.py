"""Policies on the time of a record: they decide as they did, and nobody waits."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from hermes_nb.policies.guard import RateGuard
from hermes_nb.policies.limits import Ceiling
from hermes_nb.policies.retry import Retry, Wait
from hermes_nb.turn.attempts import waiting
from hermes_nb.turn.settings import policies_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.lab.tape import Tape
    from hermes_nb.turn.request import Policies
    from hermes_nb.vocabulary.failures import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedRetry(Retry):
    """Waits as long as was waited, in no time."""

    tape: Tape

    def wait(self, failure: Failure, failures: int, roll: float) -> Wait:
        """The recorded wait; only one that was interrupted takes place."""
        recorded = self.tape.next_retry()
        if recorded is None:
            return Retry.wait(self, failure, failures, roll)
        waiting.set(recorded.outcome == "interrupted")
        return Wait(recorded.wait, "retry_after" if recorded.source == "retry_after" else "backoff")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCeiling(Ceiling):
    """Lands where the turn landed because its time was over; tokens and money are counted again."""

    tape: Tape

    def reached(self, *, tokens: int, cost_usd: float, seconds: float) -> str:  # noqa: ARG002  the tape knows
        """Which ceiling was reached here, in words."""
        return Ceiling.reached(self, tokens=tokens, cost_usd=cost_usd, seconds=0.0) or self.tape.time_over()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGuard(RateGuard):
    """Blocks what was blocked, and remembers nothing."""

    tape: Tape

    def blocked_for(self, identity: str, *, alternatives: bool = True) -> float:  # noqa: ARG002  the tape knows
        """How long the request that comes now was held back for."""
        return self.tape.blocked_for()

    def record(self, identity: str, failure: Failure) -> None:
        """Nothing: no server has said so."""

    def cool_down(self, identity: str, seconds: float | None = None) -> None:
        """Nothing: no server has said so."""

    def clear(self, identity: str) -> None:
        """Nothing."""


def recorded(settings: Mapping[str, Any], tape: Tape) -> Policies:
    """The policies that a turn had, on the tape's time.

    Args:
        settings: As they are recorded.
        tape: What is played.
    """
    functions = {"ceiling.price": tape.price, "compression.compressor": tape.compressed}
    return paced(policies_of(settings, functions), tape)


def paced(policies: Policies, tape: Tape) -> Policies:
    """Policies of today on the tape's time."""
    retry = {field.name: getattr(policies.retry, field.name) for field in fields(Retry)}
    ceiling = {field.name: getattr(policies.ceiling, field.name) for field in fields(Ceiling)} | {"seconds": None}
    return replace(
        policies,
        retry=PacedRetry(**retry, tape=tape),
        guard=RecordedGuard(tape=tape),
        ceiling=RecordedCeiling(**ceiling, tape=tape),
    )
