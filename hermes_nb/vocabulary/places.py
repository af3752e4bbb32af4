"""Where things are kept: the user's data directory, or what `HERMES_NB_HOME` names."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def results_of(conversation_id: str) -> Path:
    """Where the long results of a conversation are kept."""
    return home() / "results" / conversation_id


def home() -> Path:
    """The directory of everything that outlives a kernel; it need not exist yet."""
    named = os.environ.get("HERMES_NB_HOME")
    return Path(named).expanduser() if named else platformdirs.user_data_path("hermes_nb", appauthor=False)
