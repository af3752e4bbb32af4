"""From any value to bounded text: what a model reads of a tool's result, and where the rest is kept."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_nb.tools.finite import Reading
from hermes_nb.vocabulary.failures import in_words
from hermes_nb.vocabulary.messages import is_part
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    from hermes_nb.vocabulary.messages import Content

RESULT_LIMIT, BATCH_LIMIT = 100_000, 200_000
"""Characters of one result, and of all results of one reply, that a model reads."""

PREVIEW = 1_500
"""Characters that stand for a result which is too long."""

ERROR_LIMIT = 2_000
"""Characters of an error's text."""

STORE_LIMIT = 1_000_000_000
"""Bytes of all results that are kept in files, those of all conversations together."""

STORED = re.compile(r"[0-9a-f]{20}\.txt")
"""The name of a file with a whole result."""

_to_json = json.JSONEncoder(ensure_ascii=False).encode
_CHARACTERS_PER_TOKEN = 4
_FRAMES = 3


def limits_for(context_window: int | None) -> tuple[int, int]:
    """Limits in characters that suit a window: 15 % of it for one result, 30 % for all results of a reply.

    Args:
        context_window: Tokens; None if unknown.

    Returns:
        The limit of one result, between 8,000 and 100,000, and of a batch, between 16,000 and 200,000.
    """
    if context_window is None:
        return RESULT_LIMIT, BATCH_LIMIT
    window = context_window * _CHARACTERS_PER_TOKEN
    return min(max(8_000, window * 15 // 100), RESULT_LIMIT), min(max(16_000, window * 30 // 100), BATCH_LIMIT)


# ---------------------------------------------------------------------------------------------- values


def readable(value: object) -> Content:
    """What a model reads of a value, before any limit.

    Text stays as it is. Content parts (`[{"type": "text" | "image_url", ...}]`) stay parts, and objects that Jupyter
    shows as a picture become one. Data (numbers, lists, dicts, dataclasses, pydantic models, dates, ...) becomes
    JSON; anything else, and anything in the data that JSON does not know, its `repr`. Iterators are read up to a bound.
    """
    if isinstance(value, str):
        return unicode_only(value)
    if value is None:
        return "(no result)"
    if type(value) is int:
        with suppress(ValueError):  # too many digits for Python
            return str(value)
    if not isinstance(value, bool | int | float) and (parts := _parts(value) or _picture(value)):
        return parts
    from pydantic_core import PydanticSerializationError, to_jsonable_python  # noqa: PLC0415  its import takes longer than all of ours

    with suppress(RecursionError):  # it holds itself, or has a thousand levels
        value = Reading().of(value)
    try:
        data = to_jsonable_python(value, fallback=_as_data, inf_nan_mode="strings", bytes_mode="utf8")
        return unicode_only(data if isinstance(data, str) else _to_json(data))
    except (PydanticSerializationError, TypeError, ValueError, RecursionError):
        return unicode_only(_shown(value))


def size(content: Content) -> int:
    """Characters of the text; pictures count nothing."""
    return len(content) if isinstance(content, str) else sum(len(str(part.get("text", ""))) for part in content)


def plain(content: Content) -> str:
    """The text of a content, without its pictures."""
    return content if isinstance(content, str) else "\n".join(p["text"] for p in content if p.get("type") == "text")


def _parts(value: object) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list | tuple) or not value:
        return ()
    if not all(is_part(part) and part["type"] in ("text", "image_url") for part in value):
        return ()
    return tuple({**part, "text": unicode_only(part["text"])} if "text" in part else dict(part) for part in value)


def _picture(value: object) -> tuple[dict[str, Any], ...]:
    """One image part, if the object has Jupyter's way to be shown as a picture."""
    for kind in ("png", "jpeg"):
        draw = getattr(value, f"_repr_{kind}_", None)
        with suppress(Exception):
            if callable(draw) and isinstance(drawn := draw(), bytes):
                encoded = base64.b64encode(drawn).decode("ascii")
                return ({"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{encoded}"}},)
    return ()


def _as_data(value: Any) -> object:
    """What stands in JSON for an object that it does not know: a path's text, a NumPy scalar's number, else a repr."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else _shown(value)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001  a value's own code must not fail the call that made it
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


# ---------------------------------------------------------------------------------------------- errors


def error_text(message: str, *, details: str = "") -> str:
    """The result of a call that failed, as JSON, at most `ERROR_LIMIT` characters of it."""
    spent = len('{"error": "", "traceback": ""}')
    message = _head(message, ERROR_LIMIT // 2 if details else ERROR_LIMIT - spent)
    told = {"error": message}
    if details:
        told["traceback"] = details[-max(0, ERROR_LIMIT - spent - len(_to_json(message))) :]
    return _to_json(told)


def exception_text(error: BaseException) -> str:
    """What a model reads of a tool's exception: type, message and where, never the values of variables."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # how Python reports a StopIteration that leaves a coroutine
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent != Path(__file__).parent]
    lines = [f"{Path(f.filename).name}:{f.lineno} in {f.name}: {f.line or ''}".rstrip(": ") for f in frames[-_FRAMES:]]
    return error_text(f"[TOOL_ERROR] {unicode_only(in_words(error))}", details="\n".join(lines))


def in_short(content: Content) -> str:
    """The first words of an error result, for a span: what went wrong, without the place in the code."""
    text = plain(content)
    with suppress(ValueError, AttributeError, RecursionError):
        text = str(json.loads(text).get("error") or text)
    return _head(text.removeprefix("[TOOL_ERROR] ").partition("\n")[0], 200)


def _head(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


# ---------------------------------------------------------------------------------------------- long results


@dataclass(frozen=True, slots=True)
class Shortened:
    """A content that was cut.

    Attributes:
        content: What is left, with a sentence that tells where the whole is.
        stored_at: The file that holds the whole text; empty if it could not be written.
        deleted: Stored results of other conversations that had to go for it.
    """

    content: Content
    stored_at: str
    deleted: int


def shorten(content: Content, directory: Path | None, *, preview: int = PREVIEW) -> Shortened:
    """Cut a content to its beginning and end, and keep the whole in a file.

    Args:
        content: The content; pictures among its parts stay.
        directory: Where the file goes, named by the hash of its text; None keeps the text in memory only.
        preview: Characters that are left.
    """
    text = plain(content)
    stored_at, deleted = store(text, directory)
    where = (
        f"the whole is in {stored_at} and can be read with read_result" if stored_at else "the rest could not be kept"
    )
    head, tail = preview * 2 // 3, preview // 3
    cut = (
        f"[A result of {len(text):,} characters; {where}. Here are the first {head:,} and the last {tail:,}.]\n"
        f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"
    )
    if isinstance(content, str):
        return Shortened(cut, stored_at, deleted)
    pictures = tuple(part for part in content if part.get("type") != "text")
    return Shortened(({"type": "text", "text": cut}, *pictures), stored_at, deleted)


def store(text: str, directory: Path | None) -> tuple[str, int]:
    """Write a text to a file of its own, with room made for it.

    Args:
        text: The text.
        directory: The conversation's, beside those of other conversations.

    Returns:
        The path, or an empty text if that was not possible; and how many files of other conversations were deleted.
    """
    if directory is None:
        return "", 0
    data = text.encode()
    path, deleted = directory / f"{hashlib.sha256(data).hexdigest()[:20]}.txt", 0
    try:
        deleted = make_room(directory, len(data))
        directory.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.part")
        beside.write_bytes(data)
        beside.replace(path)
    except OSError:
        return "", deleted
    return str(path), deleted


def make_room(directory: Path, size: int) -> int:
    """Keep the stored results of all conversations within `STORE_LIMIT`: what was unused for longest goes first.

    Args:
        directory: Of the conversation that needs room; its own results stay.
        size: Bytes that it needs.

    Returns:
        How many files were deleted.

    Raises:
        OSError: The conversation alone fills the store.
    """
    others, total, deleted = [], size, 0
    for path in directory.parent.glob("*/*.txt"):
        with suppress(OSError):
            if STORED.fullmatch(path.name):
                stat = path.stat()
                total += stat.st_size
                others += [(stat.st_mtime, stat.st_size, path)] if path.parent != directory else []
    for _, freed, path in sorted(others):
        if total <= STORE_LIMIT:
            break
        with suppress(OSError):
            path.unlink()
            total, deleted = total - freed, deleted + 1
            path.parent.rmdir()  # if it was the last one
    if total > STORE_LIMIT:
        msg = f"the results of this conversation alone fill the {STORE_LIMIT:,} bytes that are kept"
        raise OSError(msg)
    return deleted
