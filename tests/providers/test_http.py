"""Limits, cancelling, connections, certificates: over real sockets."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import math
import pickle
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path

import anyio
import httpx
import pytest

from hermes_nb.providers import http, http1, transport
from hermes_nb.providers.http import LOCAL, Timeouts, request_url, timeouts_of, translated
from hermes_nb.providers.openai_chat import OpenAIChat
from hermes_nb.vocabulary.failures import ConfigurationError, ProviderError
from hermes_nb.vocabulary.failures import FailureReason as R
from tests.support.asking import Heard, ask, ask_all, chat, fail, request
from tests.support.server import (
    DONE,
    KEEPALIVE,
    STALL,
    Answer,
    Server,
    always,
    drip,
    reset,
    say,
    slow,
    stall,
    status,
    stream,
    text_chunks,
    whole,
)
from tests.support.waiting import wait_for

QUICK = Timeouts(first_token=0.3, idle=0.3, total=30)


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize(
    "answer",
    [
        stall(),
        Answer(headers={"content-type": "text/event-stream"}, moves=(STALL,)),
        stream(*[KEEPALIVE, 0.05] * 100),
        stream(*[{"choices": [{"delta": {"role": "assistant", "content": ""}}]}, 0.05] * 100),
        stream(b"data", STALL),
    ],
    ids=["silence", "headers only", "keep-alives", "empty pieces", "half a line"],
)
def test_waiting_for_the_first_token_ends(answer):
    with Server(answer) as server:
        failure = fail(chat(server, timeout=QUICK))
        assert server.requests[0].wait().disconnected
    assert (failure.reason, failure.error_type) == (R.TIMEOUT, "first_token_timeout")


@pytest.mark.parametrize("rest", [(STALL,), [KEEPALIVE, 0.05] * 100], ids=["silence", "keep-alives"])
def test_a_stream_that_stops_coming_ends_and_keeps_its_text(rest):
    heard = Heard()
    with Server(stream(*text_chunks("Hello", " wor"), *rest)) as server:
        with pytest.raises(ProviderError) as caught:
            ask(chat(server, timeout=QUICK), on_text=heard)
        assert server.requests[0].wait().disconnected
    failure = caught.value.failure
    assert (failure.reason, failure.error_type, failure.partial.text) == (R.TIMEOUT, "idle_timeout", "Hello wor")
    assert heard.text == "Hello wor"


def test_the_total_is_a_limit_for_a_stream_that_never_ends():
    with Server(drip(stream(*text_chunks(*"x" * 200)), 0.05)) as server:
        failure = fail(chat(server, timeout=Timeouts(first_token=5, idle=5, total=0.5)))
    assert failure.error_type == "total_timeout"
    assert failure.partial.text.startswith("xx")


def test_the_total_is_the_limit_without_a_stream():
    with Server(stall(), slow(0.5, say("ok"))) as server:
        provider = chat(server, stream=False, timeout=Timeouts(first_token=0.1, idle=0.1, total=2))
        failure, reply = ask_all(provider, [request(), request()])
    assert failure.error_type == "total_timeout"
    assert reply.text == "ok"


def test_a_slow_stream_that_keeps_coming_is_left_alone():
    with Server(drip(stream(*text_chunks(*"abcdefgh", finish="stop")), 0.2)) as server:
        assert ask(chat(server, timeout=Timeouts(first_token=1.2, idle=1.2))).text == "abcdefgh"


def test_a_complete_reply_does_not_wait_for_the_end_of_the_stream(monkeypatch):
    monkeypatch.setattr("hermes_nb.providers.remote.AFTER_FINISH", 0.2)
    begun = time.monotonic()
    for last in ((STALL,), (DONE, STALL)):
        with Server(stream(*text_chunks("a", "b", finish="stop"), *last)) as server:
            reply = ask(chat(server))
        assert (reply.text, reply.partial, reply.finish_reason) == ("ab", False, "stop")
    assert time.monotonic() - begun < 10


def test_the_time_to_the_first_piece_is_measured_on_pieces():
    with Server(stream(KEEPALIVE, 0.3, *text_chunks("a", finish="stop"))) as server:
        assert ask(chat(server)).time_to_first_chunk > 0.25


@pytest.mark.parametrize("wrong", [0, -1, "5", None, math.nan])
def test_a_limit_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="idle"):
        Timeouts(idle=wrong)


def test_one_number_is_the_total():
    assert timeouts_of(10, local=False) == Timeouts(10, 10, 10, 10)
    assert timeouts_of(None, local=True) == LOCAL
    assert timeouts_of(None, local=False) == Timeouts()
    assert timeouts_of(LOCAL, local=False) is LOCAL


# ------------------------------------------------------------------------------------------------ cancelling


@pytest.mark.parametrize(
    "answer",
    [stall(), stream(*text_chunks("a"), STALL), drip(stream(*text_chunks(*"x" * 1000)), 0.02), slow(30, status(500))],
    ids=["before the headers", "in the stream", "while it comes", "before an error"],
)
def test_a_cancelled_request_is_seen_by_the_server_at_once(answer):
    with Server(answer, say("next")) as server:

        async def main():
            async with chat(server).connect() as connection:
                async with anyio.create_task_group() as group:
                    group.start_soon(connection.ask, request(), Heard())
                    await anyio.to_thread.run_sync(server.wait_for)
                    await anyio.sleep(0.2)
                    cancelled = time.monotonic()
                    group.cancel_scope.cancel()
                return cancelled, await connection.ask(request(), Heard())

        cancelled, reply = anyio.run(main)
        assert reply.text == "next"
        assert server.requests[0].wait().disconnected - cancelled < 3  # usually within 1 ms


# ------------------------------------------------------------------------------------------------ connections


@pytest.mark.parametrize("streamed", [True, False])
def test_one_connection_serves_a_turn(streamed):
    with Server(*[say("ok"), status(500), status(404, "x" * 1000)] * 5) as server:
        answers = ask_all(chat(server, stream=streamed), [request()] * 15)
        assert (len(answers), server.connections) == (15, 1)


@pytest.mark.parametrize(
    ("version", "header"), [("1.0", ""), ("1.1", "connection: TE, close\r\n"), ("1.1", "Connection: Close\r\n")]
)
def test_a_connection_that_the_server_does_not_keep_is_not_kept(version, header):
    body = b'{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}'
    head = f"HTTP/{version} 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{header}\r\n"
    with Server(always(Answer(moves=(head.encode() + body,), bare=True, chunked=False))) as server:
        ask_all(chat(server, stream=False), [request()] * 2)
        assert server.connections == 2


@pytest.mark.parametrize("length", ["-5", "+5", "1_0", "five", ""])
def test_a_body_of_a_length_that_is_none_is_a_connection_failure(length):
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{{}}{{}}{{}}{{}}{{}}"
    with Server(Answer(moves=(head.encode(),), bare=True, chunked=False)) as server:
        assert fail(chat(server)).error_type == "httpx.RemoteProtocolError"


@pytest.mark.parametrize(("second", "ok"), [("2", True), ("3", False)], ids=["alike", "another"])
def test_a_length_that_is_said_twice_has_to_be_the_same(second, ok):
    body = b'{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}'
    body += b" " * (200 - len(body))
    head = f"HTTP/1.1 200 OK\r\ncontent-length: 200\r\nContent-Length: {second}00\r\n\r\n"
    with Server(Answer(moves=(head.encode() + body,), bare=True, chunked=False)) as server:
        model = chat(server, stream=False)
        assert ask(model).text == "ok" if ok else fail(model).error_type == "httpx.RemoteProtocolError"


def test_connections_that_nobody_needs_any_more_are_closed_whoever_they_lead_to(monkeypatch):
    async def two(one, other):
        async with transport.StreamTransport(ssl.create_default_context()) as shared:
            for server in (one, other):
                response = await shared.send(http1.Request(f"{server.url}/chat/completions", {}, b'{"model": ""}'))
                _ = [piece async for piece in response.aiter_bytes()]
                await response.aclose()
            assert await anyio.to_thread.run_sync(wait_for, lambda: not one._sockets)

    monkeypatch.setattr(transport, "KEPT", 0.0)
    with Server(always(say("hi"))) as one, Server(always(slow(0.01, say("hi")))) as other:
        anyio.run(two, one, other)


def test_a_bounded_number_of_connections_is_kept(monkeypatch):
    async def three(server):
        async with transport.StreamTransport(ssl.create_default_context()) as shared:
            asked = http1.Request(f"{server.url}/chat/completions", {}, b'{"model": ""}')
            responses = [await shared.send(asked) for _ in range(3)]
            for response in responses:
                _ = [piece async for piece in response.aiter_bytes()]
                await response.aclose()
            assert await anyio.to_thread.run_sync(wait_for, lambda: len(server._sockets) == 2)

    monkeypatch.setattr(transport, "MOST", 2)
    with Server(always(say("hi"))) as server:
        anyio.run(three, server)
        assert server.connections == 3


def test_the_library_underneath_does_not_try_again():
    with Server(always(status(503))) as server:
        assert fail(chat(server)).status == 503
        assert len(server.requests) == 1
    with Server(reset(), say("again")) as server:
        assert fail(chat(server)).reason == R.CONNECTION
        assert len(server.requests) == 1


def test_a_redirect_is_not_followed_and_the_key_stays_here():
    with Server(say("stolen")) as other, Server(status(307, "", {"location": other.url})) as server:
        failure = fail(chat(server))
        assert (failure.reason, failure.status) == (R.BAD_REQUEST, 307)
        assert other.url in failure.message
        assert other.requests == []


def test_a_closed_port_is_a_connection_failure():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    failure = fail(OpenAIChat("m", base_url=f"http://127.0.0.1:{port}/v1"))
    assert (failure.reason, failure.error_type, failure.status) == (R.CONNECTION, "httpx.ConnectError", None)


def test_an_unknown_host_is_a_connection_failure():
    assert fail(OpenAIChat("m", base_url="http://nowhere.invalid/v1", api_key="")).reason == R.CONNECTION


def test_a_server_that_speaks_no_http_is_a_connection_failure():
    with Server(Answer(moves=(b"SSH-2.0-OpenSSH_9.2\r\n\r\n",), bare=True, chunked=False)) as server:
        assert fail(chat(server)).reason == R.CONNECTION


def test_an_endless_error_body_is_cut():
    with Server(Answer(status=500, moves=(b"x" * 65536,) * 100)) as server:
        failure = fail(chat(server))
    assert len(failure.message) == 500


@pytest.mark.parametrize(
    "base",
    [
        "http://127.0.0.1:8080", "https://api.openai.com/v1", "http://[::1]:8080/v1/", "http://x.test/_a/B.c~/2-3",
        "https://x.test/v1?api-version=2024-10-21", "http://LocalHost/v1", "http://bücher.test:8080/v1/é/a b",
        "http://x.test/a%2Fb/../c?q=ü&r=a b", "http://x.test//v1",
    ],
)  # fmt: skip
def test_requests_go_where_httpx_would_send_them(base):
    there = httpx.URL(base)
    there = there.copy_with(path=there.path.rstrip("/") + "/chat")
    assert request_url(base, "/chat") == str(there)

    asked = request_url(base, "/chat?alt=sse")
    assert asked == str(there.copy_with(query=b"&".join(filter(None, (b"alt=sse", there.query)))))


def test_an_address_with_odd_letters_is_escaped_on_its_way():
    with Server(say("hi")) as server:
        assert ask(chat(server, base_url=f"{server.url}/é a?version=1")).text == "hi"
        assert server.requests[0].path == "/v1/%C3%A9%20a/chat/completions?version=1"
        assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"


def test_a_compressed_reply_is_read():
    body = json.dumps({"choices": [{"message": {"content": "small"}, "finish_reason": "stop"}]}).encode()
    with Server(whole(gzip.compress(body), headers={"content-encoding": "gzip"})) as server:
        assert ask(chat(server, stream=False)).text == "small"


def test_a_body_that_says_it_is_compressed_and_is_not_is_malformed():
    with Server(whole("not gzip", headers={"content-encoding": "gzip"})) as server:
        assert fail(chat(server)).reason == R.MALFORMED_REPLY


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    with Server(say("through the proxy")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert ask(OpenAIChat("m", base_url="http://models.invalid/v1", api_key="k")).text == "through the proxy"
        assert proxy.requests[0].path == "http://models.invalid/v1/chat/completions"


def test_hosts_without_a_proxy_alone_name_no_proxy(monkeypatch):
    def loaded(*_):
        raise AssertionError("httpx's own transport is used")

    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "models.example")
    monkeypatch.setattr(http, "is_loopback", lambda _: False)  # as a server on another machine
    monkeypatch.setattr(http, "_through_proxies", loaded)
    with Server(say("hi")) as server:
        assert ask(chat(server)).text == "hi"


# ------------------------------------------------------------------------------------------------ certificates

CERTIFICATE = Path(__file__).with_name("localhost.pem")


class TlsServer(Server):
    """The test server behind TLS, with a certificate that nobody has signed."""

    def __enter__(self):
        super().__enter__()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)

        serve = self._serve

        def wrapped(sock, number):
            try:
                serve(context.wrap_socket(sock, server_side=True), number)
            except (ssl.SSLError, OSError):
                sock.close()

        self._serve = wrapped
        return self

    @property
    def url(self):
        return f"https://localhost:{self.port}/v1"


def test_a_certificate_that_nobody_signed_is_refused():
    with TlsServer(say("hi")) as server:
        failure = fail(chat(server))
    assert (failure.reason, failure.error_type) == (R.CERTIFICATE, "httpx.ConnectError")
    assert server.requests == []


@pytest.mark.parametrize(("causes", "seen"), [(9, True), (10, False)])
def test_a_certificate_is_looked_for_among_the_causes_of_causes(causes, seen):
    error = ssl.SSLCertVerificationError("self-signed")
    for _ in range(causes):
        outer = OSError("no connection")
        outer.__cause__, error = error, outer
    assert (translated(error).reason is R.CERTIFICATE) == seen


def test_a_request_says_what_it_is_and_what_it_takes():
    with Server(say("hi")) as server:
        ask(chat(server))
        sent = server.requests[0].headers
    assert {name: sent[name] for name in ("accept", "accept-encoding", "content-type", "user-agent")} == {
        "accept": "application/json, text/event-stream",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "user-agent": "hermes-nb",
    }


def test_a_connection_may_be_waited_for_without_end():
    with Server(say("hi")) as server:
        assert ask(chat(server, timeout=Timeouts(connect=math.inf))).text == "hi"


def test_a_certificate_that_the_environment_trusts_is_accepted(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with TlsServer(say("hi"), say("ho")) as server:
        assert [reply.text for reply in ask_all(chat(server), [request(), request()])] == ["hi", "ho"]


def test_the_tls_context_is_made_once(monkeypatch):
    made = []

    class Spied(transport.StreamTransport):
        def __init__(self, context, connect):
            super().__init__(context, connect)
            made.append(context)

    monkeypatch.setattr(transport, "StreamTransport", Spied)
    with Server(always(say("hi"))) as server:
        for _ in range(2):
            ask(chat(server))
    assert made[0] is made[1]
    assert made[0].verify_mode == ssl.CERT_REQUIRED
    assert made[0].cert_store_stats()["x509_ca"] == 0  # plain HTTP needs none


# ------------------------------------------------------------------------------------------------ providers


def test_nothing_is_left_behind():
    with Server(say("a"), stall()) as server:
        before = threading.active_count()
        ask_all(chat(server, timeout=Timeouts(total=0.3)), [request(), request()])
        assert threading.active_count() <= before + 1
        server.requests[1].wait()
    assert not server._sockets


def test_a_provider_can_travel_to_another_process():
    provider = OpenAIChat("m", base_url="http://localhost:1/v1", api_key="key-one", temperature=0.1)
    arrived = pickle.loads(pickle.dumps(provider))
    assert arrived == provider
    assert arrived.secrets == provider.secrets == ("key-one",)


@pytest.mark.parametrize("steps", range(12))
def test_a_connection_that_nobody_waits_for_any_more_is_closed_at_whatever_moment_that_was(steps):
    """A socket that is left to the garbage collector fails this test with a warning."""

    async def main():
        with Server(always(say("hi"))) as server:
            async with transport.StreamTransport(ssl.create_default_context()) as client:
                asked = http1.Request(f"{server.url}/chat/completions", {}, b'{"model": ""}')
                for _ in range(20):
                    sending = asyncio.ensure_future(client.send(asked))
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    sending.cancel()
                    with suppress(asyncio.CancelledError):
                        await (await sending).aclose()
                await asyncio.sleep(0.1)

    asyncio.run(main())
    gc.collect()
