"""What a column and a frame are, and short words to declare them with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["str", "category", "Int64", "Float64", "boolean", "datetime64[ns, UTC]", "timedelta64[ns]"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a frame.

    Attributes:
        name: As in the frame.
        kind: The pandas dtype.
        doc: What it holds.
        values: The categories that always exist, in this order; others are added behind them as they are met.
    """

    name: str
    kind: Kind
    doc: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: its name, what a row is, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]


def text(name: str, doc: str) -> Column:
    """A column of text."""
    return Column(name, "str", doc)


def word(name: str, doc: str, *values: str) -> Column:
    """A column of few different words; `values` always exist as categories."""
    return Column(name, "category", doc, values)


def count(name: str, doc: str) -> Column:
    """A column of whole numbers."""
    return Column(name, "Int64", doc)


def flag(name: str, doc: str) -> Column:
    """A column of truth values."""
    return Column(name, "boolean", doc)


def number(name: str, doc: str) -> Column:
    """A column of numbers."""
    return Column(name, "Float64", doc)


def time(name: str, doc: str) -> Column:
    """A column of moments."""
    return Column(name, "datetime64[ns, UTC]", doc)


def duration(name: str, doc: str) -> Column:
    """A column of durations."""
    return Column(name, "timedelta64[ns]", doc)
