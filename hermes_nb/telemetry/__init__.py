"""From events to OpenTelemetry spans and metrics: `observe` for one turn, `capture` for everything from here on."""

from __future__ import annotations

from hermes_nb.telemetry.capture import Capture, Observation, capture, observe
from hermes_nb.telemetry.store import Kept, LiveStore

__all__ = ["Capture", "Kept", "LiveStore", "Observation", "capture", "observe"]
