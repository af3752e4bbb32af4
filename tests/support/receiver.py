"""A server on loopback that receives OTLP over HTTP, as a collector does."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 20.0  # seconds that a test waits for spans at most


class Receiver:
    """What arrived: spans, log records, metrics, and the headers of each request."""

    def __init__(self, url: str, status: int, delay: float) -> None:
        self.url = url
        self.status = status
        self.delay = delay
        self.spans: list[Any] = []
        self.logs: list[Any] = []
        self.metrics: list[Any] = []
        self.resources: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Take one request."""
        self.headers.append(headers)
        self.bodies.append(body)
        if path.endswith("/v1/metrics"):
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [metric for scope in resource.scope_metrics for metric in scope.metrics]
            return
        if path.endswith("/v1/logs"):
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.logs += [record for scope in resource.scope_logs for record in scope.log_records]
            return
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(resource.resource)
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def names(self) -> list[str]:
        """The names of the spans that arrived."""
        return [span.name for span in self.spans]

    def wait_for(self, spans: int) -> None:
        """Wait until so many spans have arrived."""
        end = time.monotonic() + PATIENCE
        while len(self.spans) < spans and time.monotonic() < end:
            time.sleep(0.01)


@contextmanager
def receiver(status: int = 200, delay: float = 0.0) -> Iterator[Receiver]:
    """A receiver that answers each request with a status, after so many seconds."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(it.delay)
            it.receive(self.path, dict(self.headers), body)
            self.send_response(it.status)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    it = Receiver(f"http://127.0.0.1:{server.server_port}", status, delay)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield it
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(span: Any) -> dict[str, Any]:
    """The attributes of a span that arrived."""
    return {pair.key: _value(pair.value) for pair in span.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)
