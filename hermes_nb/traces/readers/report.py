"""What was read, what was left out, and why: comes with everything that was loaded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

_SHOWN: Final = 5
"""Examples that are kept of each kind of trouble."""


@dataclass(slots=True)
class File:
    """What became of one file.

    Attributes:
        path: Its path, or a word for what has none.
        format: What it was read as; empty if nothing could be read.
        lines: Lines (of line-wise formats) or documents read.
        rows: Rows made of it, by kind: spans, events, links, messages, metrics.
        skipped: What could not be read: how often, by the reason.
        examples: Some of the places, as `line 3: not JSON`.
        waiting: Bytes read of which the rows are not columns yet.
    """

    path: str
    format: str = ""
    lines: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    waiting: int = 0

    def skip(self, why: str, where: str = "", times: int = 1) -> None:
        """Note something that was left out."""
        self.skipped[why] += times
        if len(self.examples) < _SHOWN:
            self.examples.append(f"{where}: {why}" if where else why)

    def __str__(self) -> str:
        """One line, and one more for each reason why something was skipped."""
        counted = ", ".join(f"{number:,} {kind}" for kind, number in self.rows.items() if number) or "nothing"
        lines = [f"{self.path}: {counted}" + (f" ({self.format})" if self.format else "")]
        lines += [f"  skipped {number:,}: {why}" for why, number in self.skipped.items()]
        return "\n".join(lines)


@dataclass(slots=True)
class Report:
    """What was read, what was left out, and why.

    Attributes:
        files: One entry for each file.
        notes: What else there is to know, in sentences: content left out, spans still open, parents missing, ...
    """

    files: list[File] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def spans(self) -> int:
        """Spans read."""
        return sum(file.rows["spans"] for file in self.files)

    @property
    def lines(self) -> int:
        """Lines or documents read."""
        return sum(file.lines for file in self.files)

    @property
    def skipped(self) -> Counter[str]:
        """How often something was left out, by the reason."""
        return sum((file.skipped for file in self.files), Counter())

    def __add__(self, other: Report) -> Report:
        """Both together."""
        return Report(self.files + other.files, self.notes + other.notes)

    def __str__(self) -> str:
        """The whole report in words."""
        head = f"{len(self.files):,} files, {self.lines:,} lines, {self.spans:,} spans"
        return "\n".join([head, *map(str, self.files), *self.notes])

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:  # noqa: ARG002  IPython's protocol
        """Show the words in a notebook's cell."""
        printer.text(str(self))  # type: ignore[attr-defined]  # IPython's printer
