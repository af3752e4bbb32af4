"""What model servers say when a call fails, and what it means: the lines of `wordings.jsonl`.

The wordings are those of the servers' sources, documentation and public reports; names, keys and numbers are replaced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from hermes_nb.vocabulary.failures import FailureReason


class Wording(NamedTuple):
    server: str
    status: int
    reason: FailureReason
    body: Any
    limit: int | None = None


def _read(line: str) -> Wording:
    found = json.loads(line)
    return Wording(**found | {"reason": FailureReason(found["reason"])})


WORDINGS = [_read(line) for line in Path(__file__).with_suffix(".jsonl").read_text("utf-8").splitlines()]
