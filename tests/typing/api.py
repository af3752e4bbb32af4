"""The public API as a researcher types it, read by the type checkers and never run.

Each function is one snippet of the documentation. A name that disappears, or a type that becomes `Any`, fails here.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, assert_type

import pandas as pd
from opentelemetry.sdk.trace import TracerProvider

import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, no_waiting, say, script, span_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask.distributed import Client


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


def first_lines() -> hn.Run:
    agent = hn.Agent(hn.Local(), tools=[population], budget=8)
    assert_type(agent, hn.Agent)
    run = agent.start("Which is larger, Lyon or Lille, and by how much?")
    assert_type(run, hn.Run)
    return run


def the_answer(run: hn.Run) -> None:
    result = run.result()
    assert_type(result, hn.TurnResult)
    assert_type(result.text, str)
    assert_type(result.exit_reason, hn.ExitReason)
    assert_type(result.usage, hn.Usage)
    assert_type(result.budget, hn.BudgetView)
    assert_type((result.budget.limit, result.budget.used), tuple[int, int])
    assert_type((result.budget.remaining, result.budget.refunded), tuple[int, int])
    assert_type(result.messages, tuple[hn.Message, ...])
    assert_type(result.failure, hn.Failure | None)
    assert_type(result.iterations, int)
    assert_type(result.turn_id, str)
    assert_type(result.pending_steer, str | None)
    assert_type(result.as_dict(), dict[str, Any])
    assert_type(result.trace, hn.Trace)
    result.raise_for_failure()


async def awaited(run: hn.Run) -> hn.TurnResult:
    return await run


def steered(run: hn.Run) -> None:
    note = run.steer("Give metropolitan areas instead.")
    if note.status == "delivered":
        assert_type(note.iteration, int | None)


def interrupted(run: hn.Run) -> None:
    run.interrupt()
    run.interrupt(when="boundary")
    assert run.result().exit_reason is hn.ExitReason.INTERRUPTED_BY_USER


def stepped(agent: hn.Agent) -> None:
    run = agent.start("...", paused=True)
    run.step()
    assert_type(run.state, Literal["running", "paused", "done"])
    run.resume()
    run.pause()


def conversed(agent: hn.Agent) -> None:
    session = hn.Session("cities.db")
    assert_type(hn.Session(), hn.Session)
    run = agent.start("...", session=session)
    assert_type(run.reply("And Marseille?"), hn.Run)
    assert_type(hn.Session("cities.db").resume(agent, "And Nice?"), hn.TurnResult)
    agent.run("...", session="cities.db")
    agent.run("nothing on disk", session=False)
    agent.run("...", history=[hn.Message("user", "earlier"), {"role": "assistant", "content": "yes?"}])
    agent.run("...", metadata={"experiment": "cities", "seed": 7})


def framed(run: hn.Run) -> None:
    trace = run.trace
    assert_type(trace, hn.Trace)
    assert_type(trace.turns_df(), pd.DataFrame)
    assert_type(trace.iterations_df(), pd.DataFrame)
    assert_type(trace.chats_df(), pd.DataFrame)
    assert_type(trace.attempts_df(), pd.DataFrame)
    assert_type(trace.retries_df(), pd.DataFrame)
    assert_type(trace.fallbacks_df(), pd.DataFrame)
    assert_type(trace.compressions_df(), pd.DataFrame)
    assert_type(trace.refunds_df(), pd.DataFrame)
    assert_type(trace.tool_calls_df(), pd.DataFrame)
    assert_type(trace.budget_df(), pd.DataFrame)
    assert_type(trace.messages_df(), pd.DataFrame)
    assert_type(trace.events_df(), pd.DataFrame)
    assert_type(trace.spans_df(), pd.DataFrame)
    trace.plot.timeline()
    trace.plot.budget()
    trace.plot.tokens()


def my_price_function(provider: str, model: str, usage: hn.Usage) -> float:
    return (usage.input_tokens + 4 * usage.output_tokens) * len(provider + model) * 1e-9


def renew(key: str) -> str:
    return key + "-again"


def resilient() -> hn.Agent:
    keys = hn.OpenAIChat("gpt-x", api_key=hn.CredentialPool(["key-1", "key-2"], refresh=renew))
    crowd = hn.Mixture(references=["openai:gpt-4.1-mini", "anthropic:claude-haiku-4-5"], aggregator="openai:gpt-4.1")
    return hn.Agent(
        [
            "openai:gpt-4.1-mini",
            "anthropic:claude-haiku-4-5",
            hn.OpenAIChat("qwen3", base_url="http://localhost:8080/v1"),
            hn.Anthropic("claude-haiku-4-5"),
            keys,
            crowd,
        ],
        budget=12,
        retry=hn.Retry(attempts=3, wait_initial=2, wait_max=60),
        compression=hn.Compression(threshold=0.75, context_window=128_000),
        grace=hn.Grace(),
        refund=hn.Refund(),
        ceiling=hn.Ceiling(tokens=200_000, seconds=300, cost_usd=0.50, price=my_price_function),
        guard=hn.RateGuard(),
        guardrails=hn.Guardrails(),
        checkpoints=hn.Checkpoints("."),
        faults=hn.Faults(seed=1),
    )


def other_models() -> list[hn.Provider]:
    return [
        hn.OpenAIChat("gpt-x", stream=False, timeout=20, headers={"x-team": "cities"}, temperature=0.2),
        hn.Anthropic("claude-haiku-4-5", timeout=hn.Timeouts(connect=5, first_token=60)),
        hn.Local("other.gguf", context_window=8192),
    ]


async def mine(request: hn.ModelRequest, on_text: hn.OnText) -> hn.Reply:
    on_text("four")
    return hn.Reply(hn.Message("assistant", f"four, of {len(request.messages)} messages"))


def own_provider() -> hn.Agent:
    provider = hn.as_provider(mine, name="mine")
    assert_type(provider, hn.Provider)
    return hn.Agent(provider)


def shorten(messages: Sequence[hn.Message]) -> Sequence[hn.Message]:
    return messages[-4:]


def own_compressor(agent: hn.Agent) -> None:
    assert_type(agent.with_(compression=hn.Compression(compressor=shorten, threshold=0.7)), hn.Agent)


def sub_agents(model: hn.Provider) -> hn.Agent:
    helper = hn.Agent(model, name="searcher")
    return hn.Agent(model, tools=[helper.as_tool(budget=5)])


def observed(agent: hn.Agent) -> None:
    events: list[hn.Event] = []
    agent.start("...", sinks=[events.append])


def kept(run: hn.Run) -> None:
    run.trace.to_otlp_json("turn.jsonl")
    run.trace.to_parquet("turns/")
    run.trace.to_html("turn.html")
    for source in ("cities.db", "others/*.jsonl", "jaeger.json", "inspect.eval"):
        assert_type(hn.load(source), hn.Traces)
    traces = hn.load("turns/")
    assert_type(traces, hn.Traces)
    assert_type(traces.turns_df(), pd.DataFrame)
    print(traces.report)


def sent(agent: hn.Agent) -> None:
    hn.capture(otlp="http://localhost:6006/v1/traces", content="full")
    agent.start("...", tracer_provider=TracerProvider())


def swept(agent: hn.Agent, prompts: list[str], small: hn.Provider, large: hn.Provider, dask: Client) -> None:
    study = hn.sweep(agent, prompts, vary={"budget": [4, 8, 16], "models": [small, large]}, repeats=3, parallel=16)
    assert_type(study, hn.Study)
    assert_type(study.wait(), bool)
    assert_type(study.turns_df(), pd.DataFrame)
    study.turns_df().groupby(["budget", "model"]).agg(done=("completed", "mean"), cost=("cost_usd", "mean"))
    assert_type(study.compare("budget").frame, pd.DataFrame)
    with ProcessPoolExecutor() as pool:
        hn.sweep(agent, prompts, executor=dask)
        hn.sweep({"a": agent, "b": agent}, prompts, executor=pool, score=lambda result, case: result.completed).stop()
    hn.save_dataset(study, "turns.jsonl", form="sharegpt", where=lambda turn: turn.completed)
    hn.sweep(agent, hn.load_prompts("prompts.csv"))


def compared(run_a: hn.Run, run_b: hn.Run) -> None:
    found = hn.compare(run_a.trace, run_b.trace)
    if found.divergence is not None:
        assert_type(found.divergence.iteration, int)
    assert_type(found.frame, pd.DataFrame)
    assert_type(hn.compare(run_a, run_b.result()).same, bool)


def replayed(agent: hn.Agent, run: hn.Run) -> None:
    assert_type(hn.replay(run.trace).result().messages == run.result().messages, bool)
    assert_type(hn.replay(run.trace, until=3, agent=agent.with_(budget=20), steer="Use the 2024 census."), hn.Run)
    hn.replay(hn.Session("cities.db"), agent=agent, tools="live")
    with hn.record("cassette.db") as cassette:
        assert_type(cassette(agent), hn.Agent)


def broken(agent: hn.Agent) -> None:
    agent = agent.with_(faults=hn.Faults(rate_limit=0.2, disconnect=0.05, slow=0.1, cut={1, 3}, seed=7))
    assert_type(hn.chaos(agent, ["question"]), pd.DataFrame)


def scripted() -> None:
    steps = fails("rate_limit", retry_after=2, times=2), call("population", city="Lyon"), say("522,000")
    both = calls(call("population", city="Lyon"), call("population", city="Lille"))
    provider = script(*steps, both)
    with no_waiting():
        result = hn.Agent(provider, tools=[population]).run("q")
    assert_type(span_tree(result.trace), str)


def as_hermes_does(agent: hn.Agent) -> None:
    answer = agent.run_conversation("question", system_message=None, conversation_history=None, task_id=None)
    assert_type(answer, dict[str, Any])
    agent.run_conversation("question", stream_callback=print)


def shared_budget(agent: hn.Agent) -> None:
    budget = hn.IterationBudget(10)
    assert_type(budget.consume(), bool)
    assert_type(budget.refund("compression"), bool)
    assert_type(budget.child(3), hn.IterationBudget)
    assert_type(budget.view(), hn.BudgetView)
    agent.with_(budget=budget)


def errors() -> None:
    try:
        hn.Agent("nobody:nothing")
    except hn.ConfigurationError as error:
        print(error)
    except hn.ProviderError as error:
        assert_type(error.failure, hn.Failure)
    except (hn.UnreadableTrace, hn.ReplayMismatch) as error:
        print(error.path, error.line)
    except (hn.ToolDefinitionError, hn.RunInProgress, hn.TurnFailed, hn.TraceError, hn.HermesError) as error:
        print(error)
