"""The iteration budget: a hard limit that several threads may share."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A consistent look at a budget.

    Attributes:
        limit: Iterations that may be used.
        used: Iterations used, refunds taken off.
        remaining: What can still be consumed; for a child never more than its parent has.
        refunded: Iterations given back so far.
        sequence: Number of the last change of this budget; strictly increasing.
    """

    limit: int
    used: int
    remaining: int
    refunded: int
    sequence: int


Charge: TypeAlias = BudgetView | None


class IterationBudget:
    """A number of iterations to spend, safe to share between threads and with sub-agents.

    A child draws on its parent: an iteration that a child consumes is consumed from every budget above it, in one
    step. Parent and children share one lock, so that no two of them can spend the same iteration.

    Args:
        limit: Iterations, 0 or more.

    Raises:
        ValueError: The limit is not a whole number of at least 0.
    """

    __slots__ = ("_limit", "_lock", "_parent", "_refunded", "_sequence", "_used")

    def __init__(self, limit: int) -> None:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            msg = f"a budget is a whole number of iterations, 0 or more, not {limit!r}"
            raise ValueError(msg)
        self._limit = limit
        self._used = self._refunded = self._sequence = 0
        self._parent: IterationBudget | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, budget: IterationBudget | int) -> IterationBudget:
        """The budget that is given, or a new one of so many iterations."""
        return budget if isinstance(budget, cls) else cls(budget)  # type: ignore[arg-type]  # a number then

    def consume(self) -> bool:
        """Take one iteration; False when nothing is left here or above."""
        return self.charge() is not None

    def refund(self, reason: str = "") -> bool:  # noqa: ARG002  the reason is for the reader of the call, and for events
        """Give one iteration back; False when none is in use."""
        return self.restore() is not None

    def charge(self) -> Charge:
        """Like `consume()`, with the state right after it; None when nothing was left."""
        with self._lock:
            if self._remaining() <= 0:
                return None
            for budget in self._line():
                budget._used += 1  # noqa: SLF001  same class, under the family's lock
                budget._sequence += 1  # noqa: SLF001
            return self._view()

    def restore(self) -> Charge:
        """Like `refund()`, with the state right after it; None when nothing was in use."""
        with self._lock:
            if self._used <= 0:
                return None
            for budget in self._line():
                budget._used -= 1  # noqa: SLF001
                budget._refunded += 1  # noqa: SLF001
                budget._sequence += 1  # noqa: SLF001
            return self._view()

    def mark(self) -> BudgetView:
        """The state as a change of its own: for what happens to a budget without moving it, like its exhaustion."""
        with self._lock:
            self._sequence += 1
            return self._view()

    def take_over(self, other: IterationBudget) -> BudgetView:
        """Count here what was used of another budget, in whose place this one is spent from now on."""
        before = other.view()
        with self._lock:
            for budget in self._line():
                budget._used += before.used  # noqa: SLF001
                budget._refunded += before.refunded  # noqa: SLF001
                budget._sequence = max(budget._sequence, before.sequence) + 1  # noqa: SLF001
            return self._view()

    def child(self, limit: int) -> IterationBudget:
        """A budget for a sub-agent: at most `limit` iterations, all of them drawn from this one too."""
        budget = IterationBudget(limit)
        budget._parent = self
        budget._lock = self._lock
        return budget

    def view(self) -> BudgetView:
        """Limit, used, remaining and refunded at one moment."""
        with self._lock:
            return self._view()

    def _line(self) -> list[IterationBudget]:
        line, budget = [], self
        while budget is not None:
            line.append(budget)
            budget = budget._parent  # type: ignore[assignment]
        return line

    def _remaining(self) -> int:
        return min(budget._limit - budget._used for budget in self._line())  # noqa: SLF001

    def _view(self) -> BudgetView:
        remaining = max(0, self._remaining())
        return BudgetView(self._limit, self._used, remaining, self._refunded, self._sequence)

    def __repr__(self) -> str:
        """Shows the state: `<IterationBudget 3/8 used, 5 remaining>`."""
        view = self.view()
        return f"<IterationBudget {view.used}/{view.limit} used, {view.remaining} remaining>"
