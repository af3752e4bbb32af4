"""Context files: what a working directory tells every agent that works in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from os import PathLike

NAMES = ("HERMES.md", ".hermes.md", "AGENTS.md", "agents.md", "CLAUDE.md", ".cursorrules")
"""In the order in which they are looked for; only the first one found is read (hermes-agent 0.19.0: the same)."""

LIMIT = 20_000
"""Characters; of a longer file the beginning (70 %) and the end (20 %) are kept (hermes-agent 0.19.0: the same)."""


def read_context_file(directory: str | PathLike[str]) -> str:
    """The text of the directory's context file under a line that names it; empty if there is none.

    Args:
        directory: Where to look; not above it.

    Raises:
        ConfigurationError: There is no such directory, or its file cannot be read as text.
    """
    place = Path(directory).expanduser()
    if not place.is_dir():
        msg = f"context_files={str(directory)!r} is no directory; leave it out to read none"
        raise ConfigurationError(msg)
    path = next((place / name for name in NAMES if (place / name).is_file()), None)
    if path is None:
        return ""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the context file {path} cannot be read: {error}"
        raise ConfigurationError(msg) from error
    return f"From {path.name} of the working directory:\n\n{_shortened(text, path.name)}" if text else ""


def _shortened(text: str, name: str) -> str:
    if len(text) <= LIMIT:
        return text
    head, tail = int(LIMIT * 0.7), int(LIMIT * 0.2)
    left_out = len(text) - head - tail
    return f"{text[:head]}\n\n[... {left_out} characters of {name} are left out here ...]\n\n{text[-tail:]}"
