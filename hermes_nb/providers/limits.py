"""Numbers in error messages: a window, a cap, or neither, as the wording says.

A number is taken only next to words that say what it is; "error 4096" or "exceeded by 123 tokens" is no window.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_N = r"`?\**(\d[\d,_]*)`?"
SMALLEST, LARGEST = 128, 100_000_000
"""Tokens between which a number can be a window or a cap."""

WINDOW = (
    rf"maximum context length (?:is|of|:)?\s*(?:only )?{_N}",
    rf"with {_N} maximum context length",
    rf"context (?:length|window|size|limit)\s+(?:is|of)\s+(?:only\s+)?{_N}",
    rf"context (?:length|window|size|limit) ?\({_N}(?: tokens)?\)",
    rf"context limit: [\d,]+ \+ [\d,]+ > {_N}",
    rf"max_model_len`?\s*[=:(]+\s*{_N}",
    rf"maximum (?:model|prompt|input|sequence) length (?:is|of) {_N}",
    rf"maximum number of (?:input )?tokens(?: allowed)? ?(?:is |of )?\(?{_N}",
    rf"tokens > {_N} maximum",
    rf"(?:model )?token limit(?: is| of)?:? {_N}",
    rf"(?:input|prompt)\s+tokens?[^.]{{0,40}} limit of {_N}",
    rf"max size: {_N} tokens",
    rf"current length is [\d,]+ while limit is {_N}",
    rf"`inputs` tokens \+ `max_new_tokens` must be <= {_N}",
    rf"range of input length should be \[\d+, ?{_N}\]",
)
"""Wording that names the context window."""

INPUT = (
    rf"{_N} (?:tokens )?(?:in the (?:messages|prompt|input)|of text input|from the input messages)",
    rf"{_N} input tokens",
    rf"messages resulted in {_N} tokens",
    rf"context limit: {_N} \+ [\d,]+ > ",
    rf"given: {_N} `inputs` tokens",
    rf"prompt contains {_N} tokens",
)
"""Wording that names the size of the input."""

_MAX = r"max_(?:completion_|output_|new_)?tokens"
CAP = (
    rf"supports at most {_N} (?:completion|output) tokens",
    rf"> {_N}, which is the maximum allowed number of output tokens",
    rf"{_MAX}\W[^;]{{0,60}}(?:less than or equal to|at most|<=|no more than) {_N}",
    rf"{_MAX}\W[^.;]{{0,40}}cannot be greater than (?:\W*max_model_len\W+)?{_N}",
    rf"range of max_tokens (?:is|should be) \[\d+, ?{_N}\]",
    rf"available_tokens\W{{1,4}}{_N}",
    rf"can only afford {_N}",
)
"""Wording that names the most output tokens that can be asked for."""


@dataclass(frozen=True, slots=True)
class Stated:
    """The numbers that a message states, in tokens; None where it does not."""

    window: int | None
    input: int | None
    cap: int | None

    @property
    def free(self) -> int | None:
        """Output tokens that fit beside the input."""
        return None if self.window is None or self.input is None else max(0, self.window - self.input)

    @property
    def input_fits(self) -> bool:
        """Whether the input alone leaves room worth having: an eighth of the window, or 1024 tokens."""
        return self.window is not None and (self.free or 0) >= min(1024, max(1, self.window // 8))


def stated(text: str) -> Stated:
    """Read the numbers of a message."""
    return Stated(_first(WINDOW, text), _first(INPUT, text, smallest=0), _first(CAP, text, smallest=1))


def _first(patterns: tuple[str, ...], text: str, smallest: int = SMALLEST) -> int | None:
    for pattern in patterns:
        if found := re.search(pattern, text, re.IGNORECASE):
            number = int(re.sub(r"\D", "", found[1]))
            if smallest <= number <= LARGEST:
                return number
    return None
