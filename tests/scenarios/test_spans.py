"""The spans of real turns: parents, ends, budgets and content, seen through the public API alone."""

from __future__ import annotations

import json
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, no_waiting, say, script
from hermes_nb.traces.catalogue import FRAMES
from tests.support.server import Server, status

SECRET = "sk-canary-7f3a9b2c4d5e6f708192"
mine = TracerProvider(shutdown_on_exit=False).get_tracer("mine")


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


@hn.tool(parallel_safe=True)
def query(city: str) -> str:
    """Looks a city up, slowly."""
    with mine.start_as_current_span(f"query {city}") as span:
        time.sleep(0.05)
        return format(span.get_span_context().span_id, "016x")


@hn.tool(parallel_safe=True)
async def aquery(city: str) -> str:
    """Looks a city up, asynchronously."""
    with mine.start_as_current_span(f"query {city}"):
        return city


@pytest.fixture
def provider():
    """A provider of the user's, and what its exporter got."""
    exporter = InMemorySpanExporter()
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exporter))
    made.finished = exporter.get_finished_spans
    return made


def run(agent: hn.Agent, provider: TracerProvider, prompt: str = "Which is larger?", **options) -> hn.TurnResult:
    with no_waiting():
        return agent.run(prompt, session=False, tracer_provider=provider, **options)


def drawn(spans) -> str:
    """Names and kinds of spans as a tree, siblings by their start."""
    ids = {span.context.span_id for span in spans}
    lines = []

    def draw(parent: int | None, depth: int) -> None:
        for span in sorted(spans, key=lambda span: span.start_time):
            above = span.parent.span_id if span.parent is not None and span.parent.span_id in ids else None
            if above == parent:
                lines.append(f"{'  ' * depth}{span.name} {span.kind.name}")
                draw(span.context.span_id, depth + 1)

    draw(None, 0)
    return "\n".join(lines)


def named(spans, name):
    return [span for span in spans if span.name == name]


def test_the_tree_of_a_turn_with_everything_in_it(provider):
    """Retries, a fallback, an overflow with its compression and refund, tools, a sub-agent, the grace call."""
    long = "word " * 8000
    first = script(fails("server_error"), fails("auth"), name="a", model="m1")
    second = script(
        call("population", city="Lyon"),
        fails("context_overflow", limit=4_000),
        call("searcher", task="Find Lille."),
        say("Out of budget."),
        name="b",
        model="m2",
    )
    searcher = hn.Agent(script(say("Lille has 236,000."), model="m3"), name="searcher")
    compression = hn.Compression(compressor=lambda messages: [m for m in messages if m.role == "user"][-1:])
    agent = hn.Agent([first, second], tools=[population, searcher.as_tool()], budget=3, compression=compression)

    run(agent, provider, history=[{"role": "user", "content": long}, {"role": "assistant", "content": long}])

    assert drawn(provider.finished()) == textwrap.dedent("""\
        invoke_agent agent INTERNAL
          hermes.iteration INTERNAL
            chat m1 CLIENT
              hermes.attempt INTERNAL
              hermes.retry INTERNAL
              hermes.attempt INTERNAL
            hermes.fallback INTERNAL
            chat m2 CLIENT
              hermes.attempt INTERNAL
            execute_tool population INTERNAL
          hermes.iteration INTERNAL
            chat m2 CLIENT
              hermes.attempt INTERNAL
            hermes.compression INTERNAL
              hermes.refund INTERNAL
          hermes.iteration INTERNAL
            chat m2 CLIENT
              hermes.attempt INTERNAL
            execute_tool searcher INTERNAL
              invoke_agent searcher INTERNAL
                hermes.iteration INTERNAL
                  chat m3 CLIENT
                    hermes.attempt INTERNAL
          hermes.grace_call INTERNAL
            chat m2 CLIENT
              hermes.attempt INTERNAL""")


@pytest.mark.parametrize("tool", [query, aquery], ids=["threads", "async"])
def test_parallel_tools_are_siblings_and_what_the_user_opens_in_them_is_below_them(tool, provider):
    name = tool.spec.name
    cities = ("Lyon", "Lille", "Nice")
    agent = hn.Agent(script(calls(*(call(name, city=city) for city in cities)), say("done")), tools=[tool])
    opened = []

    class Watch(InMemorySpanExporter):
        def export(self, spans):
            opened.extend(spans)
            return super().export(spans)

    users = TracerProvider(shutdown_on_exit=False)
    users.add_span_processor(SimpleSpanProcessor(Watch()))
    global mine  # noqa: PLW0603  the tools open their spans with it
    before, mine = mine, users.get_tracer("mine")
    try:
        run(agent, provider)
    finally:
        mine = before

    spans = provider.finished()
    tools = named(spans, f"execute_tool {name}")
    (iteration, _) = named(spans, "hermes.iteration")
    assert {span.parent.span_id for span in tools} == {iteration.context.span_id}
    assert sorted(span.parent.span_id for span in opened) == sorted(span.context.span_id for span in tools)
    assert {span.context.trace_id for span in (*spans, *opened)} == {iteration.context.trace_id}
    if tool is query:
        assert max(span.start_time for span in tools) < min(span.end_time for span in tools)  # they overlap


def test_a_tool_reads_of_its_span_what_any_span_of_the_sdk_tells():
    read = []

    class Baggage(SpanProcessor):  # as the processors of some back-ends do
        def on_start(self, span, parent_context=None):
            above = trace.get_current_span(parent_context)
            span.set_attribute("above", above.attributes["gen_ai.tool.name"])

    users = TracerProvider(shutdown_on_exit=False)
    users.add_span_processor(Baggage())

    @hn.tool
    def look(city: str) -> str:
        """Look."""
        span = trace.get_current_span()
        with users.get_tracer("mine").start_as_current_span("inside") as inside:
            read.append((span.name, span.kind, span.attributes["gen_ai.tool.name"], inside.attributes["above"]))
        assert not hasattr(span, "no_such_thing")
        return city

    result = hn.Agent(script(call("look", city="Lyon"), say("done")), tools=[look]).run("q", session=False)

    assert read == [("execute_tool look", trace.SpanKind.INTERNAL, "look", "look")]
    assert result.trace.tool_calls_df()["outcome"].tolist() == ["ok"]


def test_the_cells_span_is_the_parent_and_current_again_afterwards(provider):
    tracer = provider.get_tracer("notebook")

    with tracer.start_as_current_span("cell") as cell:
        started = hn.Agent(script(say("hi"))).start("q", session=False, tracer_provider=provider)
        started.result()
        assert trace.get_current_span() is cell

    (root,) = named(provider.finished(), "invoke_agent agent")
    assert root.parent.span_id == cell.get_span_context().span_id
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_spans_are_there_while_the_turn_runs():
    entered, leave = threading.Event(), threading.Event()

    @hn.tool
    def wait() -> str:
        """Waits."""
        entered.set()
        leave.wait(30)
        return "ok"

    started = hn.Agent(script(call("wait"), say("done")), tools=[wait]).start("q", session=False)
    assert entered.wait(30)
    frame = started.trace.spans_df()
    leave.set()
    started.result()

    running = set(frame.loc[frame["is_running"], "name"])
    assert running == {"invoke_agent agent", "hermes.iteration", "execute_tool wait"}
    assert not started.trace.spans_df()["is_running"].any()


@pytest.mark.parametrize("during", ["tool_call", "api_call"])
def test_an_interrupted_turn_ends_all_its_spans_without_an_error(during, provider):
    entered = threading.Event()

    @hn.tool
    def wait(context: hn.ToolContext) -> str:
        """Waits to be interrupted."""
        entered.set()
        while not context.interrupted:
            time.sleep(0.01)
        return "stopped"

    def slowly(_request):
        entered.set()
        return say("late", seconds=30)

    steps = (call("wait"),) if during == "tool_call" else (slowly,)
    started = hn.Agent(script(*steps, say("done")), tools=[wait]).start("q", session=False, tracer_provider=provider)
    assert entered.wait(30)
    started.interrupt()
    result = started.result()

    spans = provider.finished()
    root = named(spans, "invoke_agent agent")[0]
    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_USER
    assert {span.status.status_code.name for span in spans} == {"UNSET"}
    assert all(root.start_time <= span.start_time <= span.end_time <= root.end_time for span in spans)
    assert root.attributes["hermes.turn.interrupted"] is True
    assert root.attributes["hermes.turn.exit_reason"] == "interrupted_by_user"
    observed = [event for span in spans for event in span.events if event.name == "hermes.interrupt.observed"]
    assert [event.attributes.get("hermes.interrupt.during") for event in observed] == [during]


@pytest.mark.parametrize("stream", [True, False])
def test_each_failure_is_an_error_where_it_happened_and_nowhere_else(stream, provider):
    healed = hn.Agent(
        script(fails("server_error"), call("population", city="Rome"), say("done"), stream=stream), tools=[population]
    )
    run(healed, provider)
    failed = run(hn.Agent(script(fails("auth"), stream=stream)), provider)

    codes = [(s.name, s.status.status_code.name) for s in provider.finished()]
    errors = [name for name, code in codes if code == "ERROR"]
    assert failed.failed
    assert errors == [
        "hermes.attempt", "execute_tool population",  # the turn that was healed
        "hermes.attempt", "chat script", "hermes.iteration", "invoke_agent agent",
    ]  # fmt: skip
    assert {span.name for span in provider.finished() if "error.type" in span.attributes} == set(errors)
    assert "OK" not in {code for _, code in codes}


def test_streamed_or_not_a_chat_tells_the_same(provider):
    for stream in (True, False):
        run(hn.Agent(script(say("Lyon."), stream=stream)), provider)

    one, other = (dict(span.attributes) for span in named(provider.finished(), "chat script"))
    differing = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    assert differing <= {
        "gen_ai.request.stream", "gen_ai.response.time_to_first_chunk", "gen_ai.conversation.id", "hermes.turn.id",
    }  # fmt: skip


def test_the_budget_can_be_followed_from_the_spans_alone(provider):
    steps = [call("population", city="Lyon")] * 3
    result = run(hn.Agent(script(*steps, say("Out.")), tools=[population], budget=3), provider)

    spans = provider.finished()
    (root,) = named(spans, "invoke_agent agent")
    told = sorted(
        (event.attributes["hermes.budget.sequence"], event.name.removeprefix("hermes.budget."), dict(event.attributes))
        for span in spans
        for event in span.events
        if event.name.startswith("hermes.budget.")
    )
    consumed = [given for _, action, given in told if action == "consume"]
    assert all(g["hermes.budget.remaining"] == g["hermes.budget.limit"] - g["hermes.budget.used"] for _, _, g in told)
    assert len(consumed) == root.attributes["hermes.turn.iterations"] - root.attributes["hermes.turn.graces"] == 3
    assert all(a["hermes.budget.used"] + 1 == b["hermes.budget.used"] for a, b in pairwise(consumed))
    assert len(named(spans, "hermes.grace_call")) == result.graces == 1
    assert root.attributes["hermes.budget.remaining"] == result.budget.remaining == 0
    on_iterations = [e for s in named(spans, "hermes.iteration") for e in s.events if e.name == "hermes.budget.consume"]
    assert len(on_iterations) == 3


def test_attempts_lie_inside_their_chat_and_only_the_last_may_succeed(provider):
    run(hn.Agent(script(fails("server_error", times=2), say("done"))), provider)

    spans = provider.finished()
    (chat,) = named(spans, "chat script")
    attempts = named(spans, "hermes.attempt")
    assert [span.attributes["hermes.attempt.number"] for span in attempts] == [1, 2, 3]
    assert [span.attributes["hermes.attempt.outcome"] for span in attempts] == ["retry", "retry", "success"]
    assert all(chat.start_time <= a.start_time <= a.end_time <= chat.end_time for a in attempts)
    assert all(one.end_time <= other.start_time for one, other in pairwise(attempts))
    assert chat.attributes["hermes.attempts"] == 3
    assert len(named(spans, "hermes.retry")) == 2


def test_a_hundred_turns_at_once_keep_their_spans_apart():
    agent = hn.Agent(script(call("population", city="Lyon"), say("done"), each_turn=True), tools=[population])
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda _: agent.run("q", session=False), range(100)))

    for result in results:
        frame = result.trace.spans_df()
        assert len(frame) == 8
        assert frame["turn_id"].nunique() == frame["trace_id"].nunique() == 1


def test_two_turns_of_a_conversation_are_linked(provider, tmp_path):
    session = hn.Session(tmp_path / "s.db")
    agent = hn.Agent(script(say("one"), say("two")))
    agent.run("first", session=session, tracer_provider=provider)
    agent.run("second", session=session, tracer_provider=provider)

    first, second = named(provider.finished(), "invoke_agent agent")
    assert first.links == ()
    assert [dict(link.attributes)["hermes.link.type"] for link in second.links] == ["previous_turn"]
    assert second.links[0].context.span_id == first.context.span_id
    assert second.attributes["gen_ai.conversation.id"] == first.attributes["gen_ai.conversation.id"]


REFUSED = status(401, {"error": {"message": f"Incorrect API key provided: {SECRET}"}})


@hn.tool
def leak(password: str) -> str:
    """Returns a key, or fails with it."""
    if password == "raise":
        raise RuntimeError(SECRET)
    return f"the key is {SECRET}"


def test_no_key_is_in_any_span_file_or_frame(provider, tmp_path, monkeypatch, caplog):
    """The same key in settings, prompt, metadata, arguments, results, exceptions, and in what a server refuses with."""
    monkeypatch.setenv("CANARY", SECRET)
    steps = (call("leak", password=SECRET), call("leak", password="raise"), say(f"Your key is {SECRET}."))
    with (
        Server(REFUSED) as server,
        hn.capture(tmp_path / "none.jsonl"),
        hn.capture(tmp_path / "full.jsonl", content="full", events="both"),
    ):
        refusing = hn.OpenAIChat("m", base_url=server.url, api_key=SECRET, headers={"x-other": SECRET})
        agent = hn.Agent([refusing, script(*steps)], tools=[leak])
        result = run(agent, provider, f"Use {SECRET}.", metadata={"note": SECRET, "api_key": SECRET})

    written = "".join(path.read_text() for path in tmp_path.iterdir())
    spans = json.dumps([json.loads(span.to_json()) for span in provider.finished()])
    assert result.text
    assert len(provider.finished()) > 8
    assert "gen_ai.execute_tool.exception" in written
    assert SECRET not in spans
    assert SECRET not in written
    assert SECRET not in caplog.text
    assert SECRET not in repr(refusing)


def test_no_key_is_in_any_frame_export_or_repr_nor_in_the_logbook(tmp_path):
    """The canary in a prompt, arguments, results and exceptions; everything is written with all that was said."""
    steps = (call("leak", password=SECRET), call("leak", password="raise"), say("Done."))
    book = tmp_path / "book.db"
    with Server(REFUSED) as server, no_waiting():
        refusing = hn.OpenAIChat("m", base_url=server.url, api_key=SECRET, headers={"x-other": SECRET})
        run = hn.Agent([refusing, script(*steps)], tools=[leak]).start(f"Use {SECRET}.", session=hn.Session(book))
        result = run.result()
    trace = result.trace
    trace.to_parquet(tmp_path / "turns", content=True)
    trace.to_otlp_json(tmp_path / "turn.jsonl", content=True)
    trace.to_html(tmp_path / "turn.html", content=True)
    loaded = hn.load(book, content=True)

    assert SECRET in str(result.messages)  # the history is what the model needs
    assert len(trace.messages_df()) >= 6
    shown = [repr(each) for each in (run, result, trace, loaded)]
    shown += [trace._repr_html_(), loaded._repr_html_()]
    assert not [text for text in shown if SECRET in text]
    for name in FRAMES:
        for traces in (trace, loaded):
            assert SECRET not in str(traces.table(name, content=True).to_pylist()), name
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        kept = str(pq.read_table(path).to_pylist()).encode() if path.suffix == ".parquet" else path.read_bytes()
        assert SECRET.encode() not in kept, path
