"""Telling the end of a turn from what somebody's code raises."""

from __future__ import annotations

import math

import anyio


def is_cancellation(error: BaseException) -> bool:
    """Whether this comes from outside, and was not made up or brought about by the code that it comes out of."""
    return isinstance(error, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf


def ends_turn(error: BaseException) -> bool:
    """Whether somebody stops the turn; whatever else comes out of the user's code is a failure of that code."""
    return isinstance(error, KeyboardInterrupt) or is_cancellation(error)
