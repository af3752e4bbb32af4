"""The rest of a long result, piece by piece: a tool for the model."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache

from hermes_nb.tools.context import ToolContext, ToolFailed
from hermes_nb.tools.definition import FunctionTool, tool
from hermes_nb.tools.results import STORED

READER = "read_result"
_LONGEST = 20_000


def is_shortened(text: str) -> bool:
    """Whether a result stands here whose whole text the reader can read."""
    return text.startswith("[A result of ") and f"can be read with {READER}." in text.partition("\n")[0]


@cache
def result_reader() -> FunctionTool[..., str]:
    """A tool `read_result` that reads files which a toolbox has put into the turn's directory, and no others."""

    @tool(name=READER, parallel_safe=True, type="datastore", result_limit=_LONGEST + 1_000)
    def read_result(context: ToolContext, file: str, start: int = 0, characters: int = 8_000) -> str:
        """Read a part of a tool result that was too long to be shown.

        Args:
            context: Where the files are.
            file: The file that the shortened result names.
            start: The first character, from 0.
            characters: How many, at most 20,000.
        """
        names = STORED.findall(file)  # whatever stands around the name
        path = context.directory / names[-1] if names and context.directory else None
        if path is None or not path.is_file():
            msg = (
                f"There is no stored result {file[-100:]!r}. Take the name from the shortened result; if it is right, "
                "the result was deleted to make room for newer ones: call the tool again."
            )
            raise ToolFailed(msg, "not_found")
        with suppress(OSError):
            os.utime(path)  # what is used stays longest
        text = path.read_text(encoding="utf-8")
        start = max(0, start)
        end = min(len(text), start + max(1, min(characters, _LONGEST)))
        return f"[Characters {start:,} to {end:,} of {len(text):,}.]\n{text[start:end]}"

    return read_result
