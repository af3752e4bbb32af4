"""JSON files line by line, or as one document: which reader each value goes to, and what is skipped."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from hermes_nb.traces.jsons import loads
from hermes_nb.traces.readers import inspect_logs, jaeger, otlp, spandicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hermes_nb.traces.readers.report import File
    from hermes_nb.traces.rows import Row

_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def rows(lines: Iterable[bytes], file: File) -> Iterator[Row]:
    """The rows of a file, given its lines; memory holds one line, or the document where it is one."""
    lines = filter(None, map(bytes.strip, _plain(lines)))
    first = next(lines, None)
    if first is None:
        file.skip("the file is empty")
        return
    second = next(lines, None)
    ahead = [first] if second is None else [first, second]
    torn = first.startswith(b"{") and second is not None and second.startswith(b"{") and _is_value(second)
    if torn or _is_value(first):
        yield from _lines(chain(ahead, lines), file)
    else:
        yield from _document(b"\n".join(chain(ahead, lines)), file)


def _plain(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines in UTF-8 without a byte order mark."""
    lines = iter(lines)
    first = next(lines, b"")
    encoding = next((name for mark, name in _BOMS if first.startswith(mark)), None)
    if encoding == "utf-16":
        text = b"".join(chain([first], lines)).decode(encoding, "replace")
        return (line.encode() for line in text.splitlines())
    return chain([first.removeprefix(_BOMS[0][0])], lines)


def _is_value(line: bytes) -> bool:
    try:
        return isinstance(loads(line), dict | list)
    except ValueError:
        return False


def _lines(lines: Iterable[bytes], file: File) -> Iterator[Row]:
    torn = ""
    for number, line in enumerate(lines, 1):
        if torn:
            file.skip("not JSON", torn)
        try:
            value = loads(line)
        except ValueError:
            torn = f"line {number}"
            continue
        torn = ""
        file.lines += 1
        file.waiting += len(line)
        yield from value_rows(value, file, f"line {number}")
    if torn:
        file.skip("cut off at the end of the file", torn)


def _document(text: bytes, file: File) -> Iterator[Row]:
    try:
        value = loads(text)
    except ValueError as error:
        value = _beginning(text)
        if not value:
            file.skip(f"not JSON: {error}")
            return
        file.skip("cut off at the end of the file; what stands before was read")
    file.lines += 1
    yield from value_rows(value, file, "document")


def _beginning(text: bytes) -> Any:
    """What a document that was cut off holds up to there."""
    try:
        return from_json(text, allow_partial=True)
    except ValueError:
        return None


def value_rows(value: Any, file: File, where: str) -> Iterator[Row]:
    """The rows of one JSON value, by its shape."""
    if otlp.is_otlp(value):
        file.format = file.format or "OTLP JSON"
        yield from otlp.rows(value, file)
    elif jaeger.is_jaeger(value):
        file.format = file.format or "Jaeger JSON"
        yield from jaeger.rows(value, file)
    elif spandicts.is_span(value):
        file.format = file.format or "JSON of spans"
        yield from spandicts.rows(value)
    elif inspect_logs.is_log(value):
        yield from _log(file)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from value_rows(each, file, f"{where}, entry {place}")
    elif isinstance(value, dict) and isinstance(value.get("data"), list):
        yield from value_rows(value["data"], file, where)
    elif spandicts.is_attributes(value):
        file.format = file.format or "attributes of one span"
        yield from spandicts.bare(value)
    else:
        file.skip("JSON, but no trace of a known form", where)


def _log(file: File) -> Iterator[Row]:
    path = Path(file.path)
    if path.is_file():
        yield from inspect_logs.rows(path, file)
    else:
        file.skip("a log of inspect can be read from a file only")


def is_text(head: bytes) -> bool:
    """Whether these first bytes begin a JSON value."""
    return head.startswith(tuple(mark for mark, _ in _BOMS)) or head.lstrip()[:1] in (b"{", b"[")
