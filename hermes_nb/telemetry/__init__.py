"""From events to OpenTelemetry spans and metrics: `observe` for one turn, `capture` for everything from here on."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermes_nb.telemetry.observing import Observation, observe
from hermes_nb.telemetry.store import Kept, LiveStore

if TYPE_CHECKING:
    from hermes_nb.telemetry.capturing import Capture, capture

__all__ = ["Capture", "Kept", "LiveStore", "Observation", "capture", "observe"]


def __getattr__(name: str) -> Any:
    """Load the exporters' side on first use: a turn that nobody captures needs none of it."""
    if name in ("Capture", "capture"):
        return getattr(import_module("hermes_nb.telemetry.capturing"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
