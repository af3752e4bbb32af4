"""Keys taken out of texts before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hermes_nb.telemetry import semconv
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes_nb.vocabulary.events import What

REDACTED: Final = "[redacted]"
DROPPED: Final = "[dropped: the redactor failed]"

_SHORTEST_SECRET: Final = 6
"""Shorter texts ("x", "none") stand for no key where a local server wants none, and occur everywhere."""

_VENDORS: Final = (
    r"sk-(?=[\w-]{0,64}\d)[\w-]{12,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"(?:gh[opusr]|github_pat)_\w{20,}",
    r"(?:glpat|nvapi|pplx|xai|pypi)-[\w-]{16,}",
    r"(?:hf|gsk|r8|npm|tgp_v1|dop_v1|csk|fw)_[A-Za-z0-9_-]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[\w-]{30,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"\d{8,10}:AA[\w-]{30,}",  # Telegram
    r"(?<!-)eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",  # JSON web tokens
)
_NAME: Final = r"(?:api[_-]?key|apikey|access[_-]?key|secret|passw(?:or)?d|passwd|credentials?|auth[_-]?token|token)"
# Each pattern takes time in proportion to the text, also where the text is made to be slow.
_PATTERNS: Final = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (rf"(?<![A-Za-z0-9])(?P<secret>{'|'.join(_VENDORS)})", 0),
        (r"(?P<secret>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))", re.DOTALL),
        (r"\b(?:bearer|basic)\s+(?P<secret>[\w.~+/=-]{12,})", re.IGNORECASE),
        (r"\bauthorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?(?P<secret>[\w.~+/=-]{8,})", re.IGNORECASE),
        (r"://[^\s/:@]*:(?P<secret>[^\s/@]+)@", 0),
        (r"[?&](?:key|api_?key|token|sig|signature|access_token|code)=(?P<secret>[^&\s\"']{6,})", re.IGNORECASE),
        (rf"{_NAME}\b[\"']?\s*[:=]\s*[\"']?(?P<secret>(?!\d+\b)[^\s\"',;}}&]{{6,}})", re.IGNORECASE),
    )
)
_HINTS: Final = (
    *("sk-", "_live_", "_test_", "gho_", "ghp_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "nvapi-", "pplx-"),
    *("xai-", "pypi-", "hf_", "gsk_", "r8_", "npm_", "tgp_v1_", "dop_v1_", "csk_", "fw_", "xox", "akia", "asia"),
    *("aiza", "sg.", ":aa", "eyj", "-----begin", "bearer", "basic", "authorization", "://", "sig=", "signature="),
    *("code=", "key", "secret", "passw", "credential", "token"),
)
"""A text without any of these is not searched further."""

_SECRET_NAMES: Final = re.compile(
    rf"(?:^|[_.-]){_NAME}$|^(?:authorization|proxy-authorization|cookie|set-cookie|x-[\w-]*key)$", re.IGNORECASE
)

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_WORDS: Final = semconv.DECLARED - semconv.FREE_TEXT
"""Attributes that hold names and numbers, not free text; metadata and settings are not among them."""

T = TypeVar("T")


def is_secret_name(name: object) -> bool:
    """Whether a field of this name holds a key or a password; `max_tokens` does not."""
    return isinstance(name, str) and _SECRET_NAMES.search(name) is not None


def without_keys(text: str) -> str:
    """The text without what looks like the key of some vendor, a password in a URL or an assignment, or a token."""
    low = text.lower()
    if any(hint in low for hint in _HINTS):
        for pattern in _PATTERNS:
            text = pattern.sub(_mask, text)
    return text


def _mask(match: re.Match[str]) -> str:
    whole, start = match.group(), match.start()
    return whole[: match.start("secret") - start] + REDACTED + whole[match.end("secret") - start :]


class Redactor:
    """Takes keys out of texts, and of whatever holds texts.

    Args:
        secrets: Texts that must never appear; very short ones are passed over.
        custom: The user's own redactor; where it fails, the text is dropped.
        patterns: Look for what has the form of a key as well.
    """

    def __init__(
        self, secrets: Iterable[str] = (), custom: Callable[[str], str] | None = None, *, patterns: bool = True
    ) -> None:
        self._secrets = sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self._custom = custom
        self._patterns = patterns
        self._seen: dict[int, tuple[Any, Any]] = {}

    def __call__(self, text: str) -> str:
        """The text without keys."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, REDACTED)
        if self._patterns:
            text = without_keys(text)
        return text if self._custom is None else self._customised(text, self._custom)

    def _customised(self, text: str, custom: Callable[[str], str]) -> str:
        try:
            out = custom(text)
        except Exception:  # noqa: BLE001  the user's function may raise anything; the text must not get out
            return DROPPED
        return out if isinstance(out, str) else DROPPED

    def what(self, what: What) -> What:
        """An event's thing without keys: the same object, if it holds none."""
        return self._walk(what)

    def _walk(self, value: T) -> T:
        """The value without keys; copied only where something changes."""
        if isinstance(value, str):
            out: Any = value if type(value) is not str else self(value)
        elif isinstance(value, Mapping):
            out = self._mapping(value)
        elif isinstance(value, tuple | list):
            items = [self._walk(item) for item in value]
            out = value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
        elif is_dataclass(value):
            out = self._dataclass(value)
        else:
            return value
        return value if out == value else out

    def _mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        return {
            key: REDACTED if item and is_secret_name(key) and isinstance(item, str) else self._walk(item)
            for key, item in value.items()
        }

    def _dataclass(self, value: Any) -> Any:
        frozen = value.__dataclass_params__.frozen
        if frozen and (known := self._seen.get(id(value))) is not None:
            return known[1]
        changes = {f.name: new for f in fields(value) if (new := self._walk(old := getattr(value, f.name))) is not old}
        out = replace(value, **changes) if changes else value
        if frozen:
            self._seen[id(value)] = (value, out)  # holds the original, so that its id stays taken
        return out


def safe_attributes(attributes: dict[str, Any], redact: Callable[[str], str] | None = None) -> dict[str, Any]:
    """Attributes that can be written anywhere: no keys in free text, all text Unicode, all numbers of 64 bits.

    Args:
        attributes: Clean values by name; changed in place.
        redact: Takes keys out; what has the form of a key, if left out.
    """
    redact = redact or without_keys
    for key, value in attributes.items():
        if type(value) is str:
            if key not in _WORDS:
                attributes[key] = unicode_only(redact(value))
            elif not value.isascii():
                attributes[key] = unicode_only(value)
        elif type(value) is tuple and value and type(value[0]) is str:
            attributes[key] = tuple(map(unicode_only, value))
        elif type(value) is int and not _LEAST <= value <= _MOST:
            attributes[key] = max(_LEAST, min(value, _MOST))
    return attributes
