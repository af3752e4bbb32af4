"""Keys: rotated, rested, refreshed, capped, never shown."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import traceback

import anyio
import pytest

from hermes_nb.providers import credentials
from hermes_nb.providers.credentials import CredentialPool
from hermes_nb.vocabulary.failures import ConfigurationError, ProviderError
from hermes_nb.vocabulary.failures import FailureReason as R
from hermes_nb.vocabulary.messages import Reply
from tests.support.asking import Heard, chat, fail, request
from tests.support.server import Server, always, say, status

KEY_PARTS = ("a", "b", "c")
EMPTY_BUCKET = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "90"}


def turn(provider, most=12):
    """Ask as a loop would, again whenever other credentials are there, and once more after a first 429."""

    async def main():
        renewed = []
        async with provider.connect() as connection:
            for _ in range(most):
                try:
                    return renewed, await connection.ask(request(), Heard())
                except ProviderError as error:
                    renewed.append(await connection.renew(error.failure))
                    if renewed[-1] == "":
                        return renewed, error.failure
        raise AssertionError(renewed)

    return anyio.run(main)


def keys(server):
    return [received.key for received in server.requests]


def by_key(**steps):
    """Answer by the key that was sent."""
    return always(lambda received: steps[received.key])


@pytest.mark.parametrize("code", [401, 402])
def test_a_key_that_is_refused_rests_and_the_next_is_used(code):
    pool = CredentialPool(["a", "b"])
    with Server(by_key(a=status(code), b=say("hi"))) as server:
        provider = chat(server, api_key=pool)
        renewed, reply = turn(provider)
        assert (renewed, reply.text, keys(server)) == (["rotated"], "hi", ["a", "b"])
        turn(provider)
        assert keys(server) == ["a", "b", "b"]  # the next turn remembers
    assert repr(pool) == "<CredentialPool 2 keys, 1 resting>"


def test_the_first_429_waits_and_the_second_rotates():
    with Server(by_key(a=status(429), b=say("hi"))) as server:
        renewed, reply = turn(chat(server, api_key=CredentialPool(["a", "b"])))
    assert (renewed, reply.text, keys(server)) == (["later", "rotated"], "hi", ["a", "a", "b"])


def test_a_genuine_limit_rotates_at_once():
    with Server(by_key(a=status(429, headers=EMPTY_BUCKET), b=say("hi"))) as server:
        renewed, _ = turn(chat(server, api_key=CredentialPool(["a", "b"])))
    assert (renewed, keys(server)) == (["rotated"], ["a", "b"])


def test_a_success_in_between_makes_a_429_the_first_again():
    with Server(status(429), say("ok"), status(429), say("ok")) as server:

        async def main():
            async with chat(server, api_key=CredentialPool(["a", "b"])).connect() as connection:
                for _ in range(2):
                    with pytest.raises(ProviderError) as caught:
                        await connection.ask(request(), Heard())
                    assert await connection.renew(caught.value.failure) == "later"
                    await connection.ask(request(), Heard())

        anyio.run(main)
    assert keys(server) == ["a"] * 4


def test_when_all_keys_rest_the_turn_ends_and_the_next_tries_the_one_that_is_back_first():
    pool = CredentialPool(["a", "b"])
    long = {"retry-after": "3000"}
    with Server(by_key(a=status(402, headers=long), b=status(402, headers={"retry-after": "30"}))) as server:
        renewed, failure = turn(chat(server, api_key=pool))
        assert (renewed, failure.reason) == (["rotated", ""], R.BILLING)
        turn(chat(server, api_key=pool))
    assert keys(server) == ["a", "b", "b"]


def test_one_key_is_not_rotated():
    for code in (401, 402, 429):
        with Server(always(status(code))) as server:
            renewed, failure = turn(chat(server, api_key="only"))
        assert (renewed, failure.status, len(server.requests)) == ([""], code, 1)


def test_a_key_is_back_after_its_rest(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(credentials.time, "monotonic", lambda: clock[0])
    pool = CredentialPool(["a", "b"])
    first = pool.pick()
    assert pool.rest(first, credentials.COOLDOWNS[R.AUTH])
    assert pool.pick().key == "b"
    clock[0] += 299
    assert pool.pick().key == "b"
    clock[0] += 1
    assert pool.pick().key == "a"


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [(status(401), 300), (status(402), 3600), (status(429), 3600), (status(429, headers={"retry-after": "20"}), 20),
     (status(429, headers=EMPTY_BUCKET), 90)],
)  # fmt: skip
def test_how_long_a_key_rests(monkeypatch, answer, seconds):
    rests = []
    rest = CredentialPool.rest

    def spy(pool, entry, for_seconds):
        rests.append(for_seconds)
        return rest(pool, entry, for_seconds)

    monkeypatch.setattr(CredentialPool, "rest", spy)
    with Server(by_key(a=answer, b=say("hi"))) as server:
        turn(chat(server, api_key=CredentialPool(["a", "b"])))
    assert rests == [seconds]


# ------------------------------------------------------------------------------------------------ refresh


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_refused_key_is_refreshed(kind):
    seen = []

    def plain(key):
        seen.append(key)
        return "new"

    async def later(key):
        return plain(key)

    pool = CredentialPool(["old"], refresh=plain if kind == "plain" else later)
    with Server(by_key(old=status(401), new=say("hi"))) as server:
        renewed, reply = turn(chat(server, api_key=pool))
        assert (renewed, reply.text, seen, keys(server)) == (["refreshed"], "hi", ["old"], ["old", "new"])
        turn(chat(server, api_key=pool))
        assert keys(server)[-1] == "new"
    assert set(pool.secrets) == {"old", "new"}


def test_a_refresh_that_always_works_is_capped_per_key():
    count = iter(range(100))
    pool = CredentialPool(["k"], refresh=lambda _: f"new-{next(count)}")
    with Server(always(status(401))) as server:
        provider = chat(server, api_key=pool)
        renewed, failure = turn(provider)
        assert (renewed, failure.status, len(server.requests)) == (["refreshed", "refreshed", ""], 401, 3)
        turn(provider)  # the tally starts again with the next turn
        assert len(server.requests) == 6


def test_refreshes_are_capped_per_turn_whatever_the_server_does():
    """Successes in between, other keys, other failures: nothing on the other side resets the tally."""
    count = iter(range(100))
    pool = CredentialPool(["a", "b", "c"], refresh=lambda key: f"{key[0]}{next(count)}")
    outcomes = []
    with Server(*[status(401), say("ok"), status(500), status(401)] * 8) as server:

        async def main():
            async with chat(server, api_key=pool).connect() as connection:
                for _ in range(24):
                    try:
                        await connection.ask(request(), Heard())
                    except ProviderError as error:
                        outcomes.append(await connection.renew(error.failure))

        anyio.run(main)
    assert outcomes.count("refreshed") == credentials.REFRESHES_PER_TURN
    assert next(count) == credentials.REFRESHES_PER_TURN


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit, GeneratorExit, asyncio.CancelledError, BaseException])
@pytest.mark.parametrize("how", ["plain", "async"])
def test_a_refresh_that_fails_rotates_and_shows_no_key(caplog, kind, how):
    def broken(key):
        raise kind(key)

    async def later(key):
        raise kind(key)

    pool = CredentialPool(["key-secret", "b"], refresh=broken if how == "plain" else later)
    with caplog.at_level(logging.WARNING), Server(by_key(**{"key-secret": status(401), "b": say("hi")})) as server:
        renewed, reply = turn(chat(server, api_key=pool))
    assert (renewed, reply.text) == (["rotated"], "hi")
    assert kind.__name__ in caplog.text
    assert "key-secret" not in caplog.text


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_refresh_without_end_is_a_refresh_that_failed(kind):
    released = threading.Event()

    async def waits(_):
        await anyio.sleep_forever()

    refresh = waits if kind == "async" else lambda _: released.wait(30)
    pool = CredentialPool(["a", "b"], refresh=refresh, refresh_timeout=0.05)
    with Server(by_key(a=status(401), b=say("hi"))) as server:
        renewed, reply = turn(chat(server, api_key=pool))
    released.set()

    assert (renewed, reply.text) == (["rotated"], "hi")


def test_a_key_is_back_when_its_seconds_are_over(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(credentials.time, "monotonic", lambda: now[0])
    pool = CredentialPool(["a", "b"])
    first, second = pool.pick(), pool._entries[1]
    pool.rest(first, 10.0)
    assert (pool.pick(), pool.has_other(second), repr(pool)) == (second, False, "<CredentialPool 2 keys, 1 resting>")
    now[0] = 110.0
    assert (pool.pick(), pool.has_other(second), repr(pool)) == (first, True, "<CredentialPool 2 keys, 0 resting>")
    pool.rest(first, 20.0)
    pool.rest(second, 10.0)
    now[0] = 120.0
    assert pool.pick() is second


def test_of_several_keys_that_are_back_the_first_is_used(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(credentials.time, "monotonic", lambda: now[0])
    pool = CredentialPool(["a", "b", "c"])
    for entry, seconds in zip(pool._entries, (100.0, 10.0, 5.0), strict=True):
        pool.rest(entry, seconds)
    now[0] = 110.0
    assert pool.pick().key == "b"


@pytest.mark.parametrize("wrong", [None, "", "two words", "line\nbreak", 7])
def test_a_refresh_that_gives_no_key_is_a_refresh_that_failed(wrong):
    with Server(always(status(401))) as server:
        renewed, _ = turn(chat(server, api_key=CredentialPool(["a"], refresh=lambda _: wrong)))
    assert renewed[-1] == ""
    assert len(server.requests) <= 3


def test_a_key_that_another_turn_has_renewed_is_used_without_another_refresh():
    calls = []
    pool = CredentialPool(["old"], refresh=lambda key: calls.append(key) or "new")

    async def main():
        with Server(by_key(old=status(401), new=say("hi"))) as server:
            provider = chat(server, api_key=pool)
            async with provider.connect() as one, provider.connect() as other:
                failures = []
                for connection in (one, other):
                    with pytest.raises(ProviderError) as caught:
                        await connection.ask(request(), Heard())
                    failures.append(caught.value.failure)
                assert [await one.renew(failures[0]), await other.renew(failures[1])] == ["refreshed", "refreshed"]

    anyio.run(main)
    assert calls == ["old"]


def test_turns_in_many_threads_refresh_a_key_once():
    calls, lock = [], threading.Lock()

    def refresh(key):
        with lock:
            calls.append(key)
        return "new"

    pool = CredentialPool(["old"], refresh=refresh)
    results = []
    with Server(by_key(old=status(401), new=say("hi"))) as server:
        provider = chat(server, api_key=pool)
        threads = [threading.Thread(target=lambda: results.append(turn(provider))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [reply.text for _, reply in results] == ["hi"] * 6
    assert calls == ["old"]


def test_the_key_that_failed_is_the_one_that_rests():
    """Another turn rotated meanwhile: the failure of the first key must not rest the second."""
    pool = CredentialPool(["a", "b"])

    async def main():
        with Server(always(status(402))) as server:
            async with chat(server, api_key=pool).connect() as connection:
                with pytest.raises(ProviderError) as caught:
                    await connection.ask(request(), Heard())
                pool.rest(pool.pick(), 60)  # what the other turn does
                assert await connection.renew(caught.value.failure) == "rotated"
                assert pool.pick().key == "b"

    anyio.run(main)


# ------------------------------------------------------------------------------------------------ secrecy


@pytest.mark.parametrize("wrong", [[], "", [""], [None], ["a b"], ["a\n b"], ["ключ"], [1]])
def test_what_is_no_key_is_refused_without_being_shown(wrong):
    with pytest.raises(ConfigurationError) as caught:
        CredentialPool(wrong)
    assert "ключ" not in str(caught.value)


def test_blanks_around_a_key_are_taken_off_and_doubles_count_once():
    assert CredentialPool([" a\n", "a", "b"]).secrets == ("a", "b")


def test_keys_are_in_no_repr_no_failure_and_no_exception():
    with Server(
        status(401, {"error": {"message": "Incorrect API key provided: key-hidden-1. Bad key-hidden-1!"}})
    ) as server:
        provider = chat(
            server, api_key=CredentialPool(["key-hidden-1", "key-hidden-2"]), headers={"X-Extra": "key-hidden-3"}
        )
        failure = fail(provider)
    shown = [provider, provider.identity, provider.parameters, failure, ProviderError(failure), provider.credentials]
    assert "hidden" not in repr(shown) + str(shown[4])
    assert "***" in failure.message
    assert {"key-hidden-1", "key-hidden-2", "key-hidden-3"} <= set(provider.secrets)


def test_a_key_that_a_server_repeats_is_in_no_traceback():
    key = f"key-{len(KEY_PARTS)}-hidden"  # not a text of this file, whose lines are in the traceback

    async def main(provider):
        async with provider.connect() as connection:
            with pytest.raises(ProviderError) as caught:
                await connection.ask(request(), Heard())
            return caught.value

    with Server(status(401, f"the key {key} is wrong")) as server:
        error = anyio.run(main, chat(server, api_key=key))
    assert "the key *** is wrong" in str(error)
    assert key not in "".join(traceback.format_exception(error))
    assert error.__context__ is None


def test_the_identity_tells_keys_apart_and_stays_when_one_is_refreshed():
    pool = CredentialPool(["a"], refresh=lambda _: "new")
    with Server(by_key(a=status(401), new=say("hi"))) as server:
        one, other = chat(server, api_key=pool), chat(server, api_key="b")
        before = one.identity
        assert isinstance(turn(one)[1], Reply)
        assert one.identity == before != other.identity


def test_a_pool_travels_to_another_process_and_forgets_who_rests():
    pool = CredentialPool(["a", "b"], refreshes_per_key=7)
    pool.rest(pool.pick(), 100)
    arrived = pickle.loads(pickle.dumps(pool))
    assert (arrived.secrets, arrived.refreshes_per_key, repr(arrived)) == (
        ("a", "b"),
        7,
        "<CredentialPool 2 keys, 0 resting>",
    )


@pytest.mark.parametrize("wrong", [0, -1, "60", None, float("nan")])
def test_a_time_out_that_is_none_is_refused_by_name(wrong):
    with pytest.raises(ConfigurationError, match="refresh_timeout is a number of seconds above 0"):
        CredentialPool(["a"], refresh_timeout=wrong)
