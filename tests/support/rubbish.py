"""Replies of a server that is right most of the time: chunks and bodies with odd values in odd places."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

ODD = (None, True, 0, -1, 7, 2.5, "", "x", " ", [], {}, [None], [[]], {"x": None}, "\ud83d", 10**30)


class Rubbish:
    """Makes chunks and bodies; `share` of all values are of the wrong kind."""

    def __init__(self, chance: random.Random, share: float) -> None:
        self.chance = chance
        self.share = share

    def of(self, *values: Any) -> Any:
        """One of the values, or something odd."""
        return self.chance.choice(ODD if self.chance.random() < self.share else values)

    def fields(self, **makers: tuple[float, Any]) -> Any:
        """An object; each field is there with its probability. Or something odd."""
        if self.chance.random() < self.share:
            return self.chance.choice(ODD)
        return {name: make() for name, (likely, make) in makers.items() if self.chance.random() < likely}

    def text(self) -> Any:
        return self.of("a", "b c", "世界", "\ud83d", "\ude00", "", [{"type": "text", "text": "t"}], ["u"])

    def arguments(self) -> Any:
        return self.of("", "{", "}", "{}", '{"a"', ":1}", '{"a":1}', "é", {"a": 1})

    def function(self) -> Any:
        name = (0.6, lambda: self.of("add", "get_", "get_weather", ""))
        return self.fields(name=name, arguments=(0.8, self.arguments))

    def call(self) -> Any:
        return self.fields(
            index=(0.7, lambda: self.of(0, 0, 1, 2)),
            id=(0.5, lambda: self.of("", "call_1", "call_2")),
            function=(0.95, self.function),
            extra_content=(0.1, lambda: self.of({"google": {"thought_signature": "s"}})),
        )

    def several(self, make: Any) -> Any:
        return self.of([make() for _ in range(self.chance.choice((1, 1, 1, 2, 3)))])

    def detail(self) -> Any:
        return self.fields(text=(0.5, self.text), summary=(0.5, self.text))

    def message(self) -> Any:
        return self.fields(
            role=(0.5, lambda: self.of("assistant")),
            content=(0.6, self.text),
            reasoning=(0.1, self.text),
            reasoning_content=(0.1, self.text),
            reasoning_details=(0.1, lambda: self.several(self.detail)),
            refusal=(0.05, self.text),
            function_call=(0.05, self.function),
            tool_calls=(0.4, lambda: self.several(self.call)),
        )

    def number(self) -> Any:
        return self.of(0, 1, 5, 99)

    def usage(self) -> Any:
        return self.fields(
            prompt_tokens=(0.9, self.number),
            completion_tokens=(0.9, self.number),
            total_tokens=(0.7, self.number),
            input_tokens=(0.1, self.number),
            prompt_tokens_details=(0.3, lambda: self.fields(cached_tokens=(0.8, self.number))),
            completion_tokens_details=(0.3, lambda: self.fields(reasoning_tokens=(0.8, self.number))),
        )

    def finish(self) -> Any:
        return self.of("stop", "stop", "length", "tool_calls", "content_filter", "error", "abort")

    def choice(self, place: str) -> Any:
        likely = {"delta": 0.05, "message": 0.05} | {place: 0.97}
        return self.fields(
            index=(0.7, lambda: self.of(0)),
            delta=(likely["delta"], self.message),
            message=(likely["message"], self.message),
            text=(0.05, self.text),
            finish_reason=(0.3, self.finish),
            usage=(0.05, self.usage),
        )

    def error(self) -> Any:
        return self.fields(message=(0.8, self.text), code=(0.8, lambda: self.of(429, "503", "boom")))

    def reply(self, place: str) -> Any:
        """A chunk (`delta`) or a body (`message`)."""
        if self.chance.random() < 0.02:
            return {"error": self.error()}
        return self.fields(
            id=(0.8, lambda: self.of("r")),
            model=(0.8, lambda: self.of("m")),
            usage=(0.3, self.usage),
            choices=(0.95, lambda: self.of([self.choice(place)])),
            x_groq=(0.03, lambda: self.fields(usage=(1, self.usage))),
            timings=(0.03, lambda: self.fields(predicted_n=(1, self.number), prompt_n=(1, self.number))),
        )

    def chunks(self) -> list[Any]:
        return [self.reply("delta") for _ in range(self.chance.randrange(9))]

    def stream(self) -> bytes:
        """The bytes of a stream, in all the ways in which events are written."""
        ways = ("data: {}\n\n", "data:{}\r\n\r\n", ": ping\n\ndata: {}\n", "event: x\ndata: {}\n\n", "data: {}\n\n")
        events = [self.chance.choice(ways).replace("{}", json.dumps(chunk)) for chunk in self.chunks()]
        if self.chance.random() < self.share:
            events.insert(0, self.chance.choice(("{", "<html>", "\x00", "[]", "data: {broken\n\n", "\ufeff")))
        end = self.chance.choice(("data: [DONE]\n\n", "data: [DONE]\n\n", "", "data: [DONE]"))
        return "".join([*events, end]).encode()
