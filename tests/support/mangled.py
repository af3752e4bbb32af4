"""Well-formed replies of either API damaged on their way: in their values, their events, their bytes."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.answers import CUT, RESET, Answer
from tests.support.rubbish import ODD

if TYPE_CHECKING:
    from tests.support.answers import Move, Said
    from tests.support.server import Received

DATA = re.compile(rb"data: (\{.*\})\n\n", re.DOTALL)
NOISE = (
    b": ping\n\n", b"data: {\n\n", b"data: [DONE]\n\n", b"event: error\ndata: {}\n\n", b"\xff\xfe", b"<html>", b"\n\n",
)  # fmt: skip
KINDS = ("text/event-stream", "application/json", "text/plain", "text/html", "")


@dataclass(frozen=True)
class Mangled:
    """A step of the scripted server: a reply, damaged by chance.

    Args:
        reply: What would be said.
        seed: Of the damage.
        share: Of all values that become something odd, and of all events that are lost, doubled or exchanged.
        cut: The share of the bytes after which the connection ends; 1 for a reply that comes whole.
    """

    reply: Said
    seed: int
    share: float
    cut: float = 1.0

    def __call__(self, request: Received) -> Answer:
        chance = random.Random(self.seed)
        streamed, pieces = self.reply.shape(request.path, request.body)
        pieces = tuple(self._values(piece, chance) for piece in pieces)
        raw = b"".join(self._events(pieces, chance) if streamed else pieces)
        kind = "text/event-stream" if streamed else "application/json"
        if chance.random() < self.share:
            kind = chance.choice(KINDS)
        return Answer(headers={"content-type": kind}, moves=self._moves(raw, chance))

    def _values(self, piece: bytes, chance: random.Random) -> bytes:
        """The same piece with odd values in it."""
        if found := DATA.search(piece):
            made = json.dumps(self._odd(json.loads(found[1]), chance)).encode()
            return piece[: found.start(1)] + made + piece[found.end(1) :]
        return piece if b"[DONE]" in piece else json.dumps(self._odd(json.loads(piece), chance)).encode()

    def _odd(self, value: Any, chance: random.Random) -> Any:
        if chance.random() < self.share:
            return chance.choice(ODD)
        if isinstance(value, dict):
            kept = {key: item for key, item in value.items() if chance.random() >= self.share}
            return {key: self._odd(item, chance) for key, item in kept.items()}
        if isinstance(value, list):
            return [self._odd(item, chance) for item in value]
        return value

    def _events(self, pieces: tuple[bytes, ...], chance: random.Random) -> list[bytes]:
        """The events, of which some are lost, doubled, exchanged with the next, or followed by noise."""
        out = list(pieces)
        for place in range(len(out) - 1, -1, -1):
            if chance.random() >= self.share:
                continue
            match chance.randrange(4):
                case 0:
                    del out[place]
                case 1:
                    out.insert(place, out[place])
                case 2:
                    out[place : place + 2] = reversed(out[place : place + 2])
                case 3:
                    out.insert(place + 1, chance.choice(NOISE))
        return out

    def _moves(self, raw: bytes, chance: random.Random) -> tuple[Move, ...]:
        size = chance.choice((7, 100, 10_000))
        sent = raw[: int(len(raw) * self.cut)]
        moves = tuple(sent[start : start + size] for start in range(0, len(sent), size))
        return moves if self.cut >= 1 else (*moves, chance.choice((CUT, RESET)))
