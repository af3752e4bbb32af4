"""From events to OpenTelemetry spans and metrics."""
