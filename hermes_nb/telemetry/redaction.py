"""Keys taken out of texts before anything is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.telemetry import semconv
from hermes_nb.vocabulary.texts import REDACTED, unicode_only

if TYPE_CHECKING:
    from collections.abc import Callable

DROPPED: Final = "[dropped: the redactor failed]"

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


def redacting(custom: Callable[[str], str] | None) -> Callable[[str], str]:
    """What takes keys out of a text, then lets the user's redactor at it; a text that this fails on is dropped."""
    if custom is None:
        return without_keys

    def redact(text: str) -> str:
        try:
            out = custom(without_keys(text))
        except Exception:  # noqa: BLE001  the user's function may raise anything; the text must not get out
            return DROPPED
        return out if isinstance(out, str) else DROPPED

    return redact


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
