"""Token counts, in all the dialects in which servers give them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.messages import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.providers.sse import Json


def read_usage(data: Mapping[str, Json]) -> Usage | None:
    """The usage in a reply, a chunk or a choice; None where there is none.

    Input includes cached tokens and output includes reasoning tokens, whatever the server's habit.
    """
    usage = data.get("usage")
    if not isinstance(usage, dict):
        groq = data.get("x_groq")
        usage = groq.get("usage") if isinstance(groq, dict) else None
    if isinstance(usage, dict):
        return _counted(usage)
    timings = data.get("timings")  # llama.cpp counts in every reply, also where usage was not asked for
    if isinstance(timings, dict) and (made := _number(timings, "predicted_n")):
        cached = _number(timings, "cache_n")
        return Usage(_number(timings, "prompt_n") + cached, made, cached)
    return None


def _counted(usage: Mapping[str, Json]) -> Usage | None:
    if "input_tokens" in usage and "prompt_tokens" not in usage and "input_tokens_details" not in usage:
        return anthropic_usage(usage)
    given = _number(usage, "prompt_tokens", "input_tokens")
    made = _number(usage, "completion_tokens", "output_tokens")
    before = _inner(usage, "prompt_tokens_details", "input_tokens_details")
    after = _inner(usage, "completion_tokens_details", "output_tokens_details")
    thought = _number(after, "reasoning_tokens") or _number(usage, "reasoning_tokens")
    if thought and _number(usage, "total_tokens") == given + made + thought:
        made += thought  # this server counts thinking beside the output
    cached = _number(before, "cached_tokens") or _number(usage, "prompt_cache_hit_tokens", "cached_tokens")
    written = _number(before, "cache_write_tokens", "cache_creation_tokens")
    counted = Usage(given, made, min(cached, given), min(written, given), min(thought, made))
    return counted if counted.total_tokens else None


def anthropic_usage(usage: Mapping[str, Json]) -> Usage | None:
    """Usage in Anthropic's form, where the input leaves cached tokens out."""
    read, written = _number(usage, "cache_read_input_tokens"), _number(usage, "cache_creation_input_tokens")
    given = _number(usage, "input_tokens") + read + written
    counted = Usage(given, _number(usage, "output_tokens"), read, written)
    return counted if counted.total_tokens else None


def widest(one: Usage | None, other: Usage) -> Usage:
    """The larger number of each kind: servers repeat a growing count."""
    if one is None:
        return other
    return Usage(*(max(getattr(one, field.name), getattr(other, field.name)) for field in fields(Usage)))


def _inner(usage: Mapping[str, Json], *names: str) -> Mapping[str, Json]:
    return next((found for name in names if isinstance(found := usage.get(name), dict)), {})


def _number(usage: Mapping[str, Json], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:  # noqa: PLR2004  sane
            return int(value)
    return 0
