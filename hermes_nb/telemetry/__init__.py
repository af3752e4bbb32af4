"""From events to OpenTelemetry spans and metrics: `observe` for one turn, `capture` for everything from here on."""

from __future__ import annotations

from hermes_nb.telemetry.capture import Observation, observe
from hermes_nb.telemetry.store import Kept, LiveStore

__all__ = ["Kept", "LiveStore", "Observation", "observe"]
