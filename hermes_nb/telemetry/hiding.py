"""What the environment hides from viewers: the `OPENINFERENCE_HIDE_*` variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from hermes_nb.telemetry import semconv as s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PLACEHOLDER: Final = "__REDACTED__"

_MESSAGES: Final = {
    "INPUT": (s.GEN_AI_INPUT_MESSAGES, s.GEN_AI_SYSTEM_INSTRUCTIONS, s.GEN_AI_TOOL_CALL_ARGUMENTS),
    "OUTPUT": (s.GEN_AI_OUTPUT_MESSAGES, s.GEN_AI_TOOL_CALL_RESULT),
}
_VALUES: Final = {"INPUT": s.INPUT_VALUE, "OUTPUT": s.OUTPUT_VALUE}
_REQUEST: Final = "gen_ai.request."


@dataclass(frozen=True, slots=True)
class Hidden:
    """What is hidden: the names of the variables that are set, without `OPENINFERENCE_HIDE_`."""

    names: frozenset[str] = frozenset()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """What the environment says now."""
        given = os.environ if environment is None else environment
        prefix = "OPENINFERENCE_HIDE_"
        is_on = ("true", "1")
        return cls(
            frozenset(k.removeprefix(prefix) for k, v in given.items() if k.startswith(prefix) and v.lower() in is_on)
        )

    def text(self, side: str, redact: Callable[[str], str]) -> Callable[[str], str]:
        """What is applied to the texts of the `INPUT` or the `OUTPUT` messages."""
        return (lambda _: PLACEHOLDER) if f"{side}_TEXT" in self.names else redact

    def attributes(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """The attributes without what is hidden."""
        if not self.names:
            return attributes
        out = dict(attributes)
        for side in ("INPUT", "OUTPUT"):
            if self.names & {f"{side}S", f"{side}_MESSAGES"}:
                for key in _MESSAGES[side]:
                    out.pop(key, None)
            if f"{side}S" in self.names and _VALUES[side] in out:
                out[_VALUES[side]] = PLACEHOLDER
        if "LLM_TOOLS" in self.names:
            out.pop(s.GEN_AI_TOOL_DEFINITIONS, None)
        if "LLM_INVOCATION_PARAMETERS" in self.names:
            out.pop(s.HERMES_CHAT_PARAMETERS, None)
            kept = (s.GEN_AI_REQUEST_MODEL, s.GEN_AI_REQUEST_STREAM)
            out = {k: v for k, v in out.items() if not k.startswith(_REQUEST) or k in kept}
        return out
