"""OTLP in protobuf: one message, or messages with their lengths before them, as a collector's file exporter writes."""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.readers import otlp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from hermes_nb.traces.readers.report import File
    from hermes_nb.traces.rows import Row

_LONGEST: Final = 1 << 30
"""A message is at most 1 GiB; more is no length."""
_FIRST_FIELD: Final = b"\x0a"
"""How each of the three messages begins: its first field, with a length."""


def is_protobuf(head: bytes) -> bool:
    """Whether these are the first bytes of a message, bare or behind its length."""
    return head.startswith(_FIRST_FIELD) or (head[:1] < b"\x40" and head[4:5] in (_FIRST_FIELD, b"\x28"))


def rows(stream: BufferedReader, file: File) -> Iterator[Row]:
    """The rows of a file; needs opentelemetry-proto."""
    try:
        import opentelemetry.proto.trace.v1.trace_pb2  # noqa: F401, PLC0415  is it there?
    except ImportError:
        file.skip("protobuf needs the package opentelemetry-proto: pip install 'hermes-nb[otlp]'")
        return
    file.format = "OTLP protobuf"
    for number, message in enumerate(_messages(stream, file), 1):
        document = _parsed(message)
        if document is None:
            file.skip("no OTLP message", f"message {number}")
        else:
            file.lines += 1
            file.waiting += len(message)
            yield from otlp.rows(document, file)


def _messages(stream: BufferedReader, file: File) -> Iterator[bytes]:
    if stream.peek(1)[:1] == _FIRST_FIELD:
        yield stream.read()
        return
    while len(head := stream.read(4)) == 4:  # noqa: PLR2004  bytes of the length
        (length,) = struct.unpack(">I", head)
        message = stream.read(length) if length <= _LONGEST else b""
        if len(message) < length or not length:
            file.skip("cut off at the end of the file")
            return
        yield _decompressed(message)


def _decompressed(message: bytes) -> bytes:
    """A message that was compressed by itself, as with the exporter's `compression: zstd`."""
    if not message.startswith(b"\x28\xb5\x2f\xfd"):
        return message
    import pyarrow as pa  # noqa: PLC0415  knows the format

    with pa.CompressedInputStream(pa.BufferReader(message), "zstd") as stream:
        found: bytes = stream.read()
    return found


def _parsed(message: bytes) -> dict[str, Any] | None:
    """The message as OTLP JSON: that of the three signals which understands it."""
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # noqa: PLC0415  an extra
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # noqa: PLC0415
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData  # noqa: PLC0415
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData  # noqa: PLC0415

    for kind in (TracesData, LogsData, MetricsData):
        try:
            found: dict[str, Any] = MessageToDict(kind.FromString(message))
        except DecodeError:
            continue
        if _is_understood(found):
            return found
    return None


def _is_understood(document: dict[str, Any]) -> bool:
    """Whether a message was read as what it is: the three signals differ only in the fields of their items."""
    items = (
        item
        for resource in chain.from_iterable(document.values())
        for scope in chain.from_iterable(value for key, value in resource.items() if key.startswith("scope"))
        for key, found in scope.items()
        if isinstance(found, list)
        for item in found
    )
    return any(not _MARKS.isdisjoint(item) for item in items)


_MARKS: Final = frozenset(
    {"startTimeUnixNano", "timeUnixNano", "observedTimeUnixNano", "sum", "gauge", "histogram", "exponentialHistogram"}
)
"""What only spans, only log records, or only metrics have."""
