"""Whatever a server sends: a reply or a failure, never another exception, never a call without a name."""

from __future__ import annotations

import json
import random
from collections import Counter

import anyio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_nb.providers.calls import Calls
from hermes_nb.providers.chat_assembly import ChatAssembly
from hermes_nb.providers.openai_chat import OpenAIChat
from hermes_nb.providers.remote import RemoteConnection
from hermes_nb.providers.sse import EventDecoder, read_body
from hermes_nb.vocabulary.failures import ProviderError
from hermes_nb.vocabulary.messages import Message, Reply
from tests.support.asking import Heard, ask_all, chat, request
from tests.support.rubbish import Rubbish
from tests.support.server import Answer, Server

SHARES = (0.0, 0.01, 0.05, 0.3)
rubbish = st.builds(
    lambda seed, share: Rubbish(random.Random(seed), share), st.integers(0, 2**32), st.sampled_from(SHARES)
)


def check(answer):
    """A reply that the loop can use, or a failure that says something."""
    if isinstance(answer, ProviderError):
        assert answer.failure.message
        return "failure"
    assert answer.message.role == "assistant"
    ids = [call.id for call in answer.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    for call in answer.tool_calls:
        assert call.name.strip() == call.name != ""
        assert isinstance(call.arguments, str)
    assert answer.partial == (answer.finish_reason == "unknown")
    if all(call.arguments for call in answer.tool_calls):  # a call that was cut before them is never kept
        assert Message.from_dict(json.loads(json.dumps(answer.message.as_dict()))) == answer.message
    (answer.text + answer.message.reasoning).encode()  # no lone surrogates
    if answer.usage:
        assert answer.usage.input_tokens >= answer.usage.cache_read_tokens >= 0
        assert answer.usage.output_tokens >= answer.usage.reasoning_tokens >= 0
    return "partial" if answer.partial else "calls" if answer.tool_calls else "text"


def assembled(feed):
    heard = Heard()
    assembly = ChatAssembly(heard, "here")
    try:
        feed(assembly)
        reply = assembly.reply()
    except ProviderError as error:
        assembly.message()
        return error
    if not assembly._refusal:
        assert heard.text.replace("�", "") in reply.text.replace("�", "")
    return reply


@settings(max_examples=1000, deadline=None)
@given(rubbish, st.booleans())
def test_any_chunks_make_a_reply_or_a_failure(made, done):
    def feed(assembly):
        for chunk in made.chunks():
            assembly.feed(chunk)
        if done:
            assembly.done()

    check(assembled(feed))


@settings(max_examples=1000, deadline=None)
@given(rubbish)
def test_any_body_makes_a_reply_or_a_failure(made):
    kind = check(assembled(lambda assembly: assembly.whole(made.reply("message"))))
    assert kind != "partial"


def test_the_rubbish_is_of_every_kind():
    """The properties above say little if nearly everything is a failure."""
    made = Rubbish(random.Random(1), 0.02)

    def feed(assembly):
        for chunk in made.chunks():
            assembly.feed(chunk)

    kinds = Counter(check(assembled(feed)) for _ in range(500))
    assert min(kinds[kind] for kind in ("failure", "partial", "calls", "text")) > 25, kinds


@settings(max_examples=500, deadline=None)
@given(rubbish, st.integers(1, 200))
def test_any_bytes_cut_anywhere_make_a_reply_or_a_failure(made, size):
    raw = made.stream()

    async def pieces():
        for start in range(0, len(raw), size):
            yield raw[start : start + size]

    check(anyio.run(_without_sockets, httpx.Response(200, content=pieces())))


async def _without_sockets(response):
    """One request that gets this response: there are many."""
    provider = OpenAIChat("m", base_url="http://127.0.0.1:9/v1")

    async def send(_):
        return response

    try:
        return await RemoteConnection(provider, send, provider.dialect()).ask(request(), Heard())
    except ProviderError as error:
        return error


def test_a_server_of_rubbish_on_real_sockets():
    made = Rubbish(random.Random(2), 0.05)

    def answer(_):
        kind = made.chance.choice(("text/event-stream", "application/json", "text/plain", "text/html"))
        raw = json.dumps(made.reply("message")).encode() if made.chance.random() < 0.3 else made.stream()
        cut = made.chance.randrange(1, 400)
        moves = tuple(raw[i : i + cut] for i in range(0, len(raw), cut))
        return Answer(made.chance.choice((200, 200, 200, 429, 500)), {"content-type": kind}, moves)

    with Server(*[answer] * 300) as server:
        answers = ask_all(chat(server), [request()] * 300)
    assert len(server.requests) == 300
    assert sum(isinstance(one, Reply) for one in answers) > 50
    for one in answers:
        check(one if isinstance(one, Reply) else ProviderError(one))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | rubbish.map(Rubbish.stream), st.integers(1, 10))
def test_how_bytes_are_cut_changes_nothing(raw, size):
    def events(pieces):
        decoder = EventDecoder()
        found = [event for piece in pieces for event in decoder.feed(piece)] + decoder.end()
        return repr(found), decoder.body  # by their text, since NaN is not itself

    assert events([raw]) == events([raw[i : i + size] for i in range(0, len(raw), size)])


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_calls_in_pieces_are_put_together_as_they_were(seed, indexed, repeated):
    """With an index, the pieces of several calls may come mixed; without one, call after call."""
    chance = random.Random(seed)
    wanted = [
        (f"c{i}", chance.choice("fg"), json.dumps({"a": chance.randrange(99)})) for i in range(chance.randint(1, 4))
    ]
    queues = []
    for index, (identity, name, arguments) in enumerate(wanted):
        size = chance.randint(1, 9)
        shared = ({"index": index} if indexed else {}, {"name": name} if repeated and indexed else {})
        deltas = [{"id": identity, "function": {"name": name, "arguments": ""}, **shared[0]}]
        pieces = [arguments[i : i + size] for i in range(0, len(arguments), size)]
        queues.append(deltas + [{"function": {"arguments": piece, **shared[1]}, **shared[0]} for piece in pieces])
    calls, begun = Calls(), 1
    while any(queues):
        live = [queue for queue in queues[:begun] if queue] if indexed else []
        calls.stream([(chance.choice(live) if live else next(queue for queue in queues if queue)).pop(0)])
        begun = min(begun + chance.randint(0, 1), len(queues))
    made, _ = calls.result(complete=True)
    assert sorted((c.id, c.name, c.arguments) for c in made) == wanted


def test_a_body_of_json_lines_is_several_values():
    assert read_body(b'\xef\xbb\xbf{"a": 1}\n\n{"b": 2}\n') == [{"a": 1}, {"b": 2}]
    assert read_body('{"a": "x\u2028y"}\n{"b": "\x85"}'.encode()) == [{"a": "x\u2028y"}, {"b": "\x85"}]
    with pytest.raises(ValueError, match="JSON"):
        read_body(b"{")
