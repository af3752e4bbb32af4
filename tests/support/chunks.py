"""Chunks of streamed replies, and what a provider makes of them."""

from __future__ import annotations

from tests.support.asking import ask, chat
from tests.support.server import Server, stream


def delta(**fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def part(arguments=None, **fields):
    function = {key: value for key, value in (("name", fields.pop("name", None)), ("arguments", arguments)) if value}
    return delta(tool_calls=[{**fields, "function": function}])


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def asked(*moves, on_text=None, done=True):
    with Server(stream(*moves, done=done)) as server:
        return ask(chat(server), on_text=on_text)


def made(*moves, done=True):
    return [(c.name, c.arguments) for c in asked(*moves, done=done).tool_calls]
