"""This process, as traces and logbooks name it."""

from __future__ import annotations

import uuid
from functools import cache


@cache
def run_id() -> str:
    """The same id as long as the process lives: 16 hexadecimal digits, made when it is first asked for."""
    return uuid.uuid4().hex[:16]
