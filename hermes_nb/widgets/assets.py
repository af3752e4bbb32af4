"""The scripts and styles that go to the browser, each as one text: a widget takes no files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


@cache
def script(name: str) -> str:
    """A module with the modules that it imports before it; the names of all of them are those of one module then."""
    parts: dict[str, str] = {}
    _collect(name, parts)
    return "\n".join(parts.values())


def _collect(name: str, parts: dict[str, str]) -> None:
    if name in parts:
        return
    text = (_FOLDER / name).read_text(encoding="utf-8")
    for imported in _IMPORT.findall(text):
        _collect(imported, parts)
    parts[name] = _EXPORT.sub("", _IMPORT.sub("", text))


@cache
def style() -> str:
    """The style sheet of all widgets."""
    return (_FOLDER / "panel.css").read_text(encoding="utf-8")
