"""The agent: frozen configuration, and the ways to run a turn with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from hermes_nb.arguments import coerced, fitting, iterations, observers, sendable, tracing
from hermes_nb.delegation import AgentTool
from hermes_nb.logbook.guardfile import GuardFile
from hermes_nb.policies.compression import Compression
from hermes_nb.policies.guard import RateGuard
from hermes_nb.policies.guardrails import Guardrails
from hermes_nb.policies.limits import BudgetNotice, Ceiling, Delegation, Grace, Refund
from hermes_nb.policies.retry import Retry
from hermes_nb.providers.base import Provider, is_provider
from hermes_nb.run import Run
from hermes_nb.session import Session
from hermes_nb.tools.checkpoints import Checkpoints
from hermes_nb.tools.context import ToolFailed, call_under_way
from hermes_nb.tools.toolbox import Toolbox
from hermes_nb.turn.context_files import read_context_file
from hermes_nb.turn.request import Policies, TurnRequest
from hermes_nb.turn.settings import KINDS
from hermes_nb.vocabulary.budget import IterationBudget
from hermes_nb.vocabulary.events import Delta, Event, Sink
from hermes_nb.vocabulary.failures import ConfigurationError, RunInProgress
from hermes_nb.vocabulary.messages import Message
from hermes_nb.vocabulary.places import results_of

if TYPE_CHECKING:
    from os import PathLike

    from hermes_nb.tools.definition import Tool
    from hermes_nb.turn.result import TurnResult
    from hermes_nb.vocabulary.messages import Content

LEAST = {
    "retry": "Retry(attempts=1), each request once",
    "refund": "Refund(limit=0), nothing given back",
    "delegation": "Delegation(depth=0), no sub-agents",
    "guardrails": "Guardrails with math.inf for its bounds",
}
"""What to say instead of None, of the policies that cannot be switched off."""

Models: TypeAlias = "str | Provider | Sequence[str | Provider]"
History: TypeAlias = Iterable[Message | Mapping[str, Any]]


@runtime_checkable
class Injecting(Protocol):
    """Changes what a turn is asked to do before it starts; see `hermes_nb.Faults`."""

    def inject(self, request: TurnRequest) -> TurnRequest:
        """The request with providers and tools that fail now and then."""


@dataclass(frozen=True, init=False)
class Agent:
    """Who answers, with which tools, within which bounds. Frozen: make variants with `with_()`.

    An agent holds no conversation and may run any number of turns at the same time; a *session* runs one.

    Args:
        models: A model string (`"openai:gpt-4.1-mini"`), a provider, or a list of them: the chain of fallbacks.
        tools: Functions, `@tool` functions, other agents' `as_tool()`; or a `Toolbox` of them, with limits of its own.
        instructions: What the model is told before everything else.
        name: Of the agent, on spans and in the panel.
        budget: Iterations of a turn; or an `IterationBudget`, which is then used itself and may be shared.
        retry: Attempts and waits.
        compression: When and how the history is made smaller; None for never.
        grace: The one more call when the budget is gone; None for none.
        refund: Which iterations are given back.
        ceiling: Bounds on tokens, seconds and money; None for none.
        delegation: How deep sub-agents may go, and how many work at the same time.
        guard: Remembers rate limits; None to forget them.
        guardrails: What happens when the model goes round in circles.
        budget_notice: Tells the model that its budget is running out; None for never.
        context_files: A working directory whose AGENTS.md (or HERMES.md, CLAUDE.md, .cursorrules) is told to the model;
            read when the agent is made.
        checkpoints: `Checkpoints(directory)` saves the directory's files before a tool marked `writes=` changes
            them; `Run.restore(iteration)` brings them back.
        faults: Injected failures; see `hermes_nb.Faults`.

    Raises:
        ConfigurationError: Something cannot work; said at once.
        ToolDefinitionError: A function cannot be a tool.
    """

    models: tuple[Provider, ...]
    toolbox: Toolbox
    instructions: str
    name: str
    budget: int | IterationBudget
    policies: Policies
    context_files: str | PathLike[str] | None
    context: str = field(repr=False)
    checkpoints: Checkpoints | None = field(default=None, repr=False)
    faults: Injecting | None = None

    def __init__(  # noqa: PLR0913  one argument for each decision, all but one by keyword
        self,
        models: Models,
        *,
        tools: Iterable[Tool | Callable[..., Any]] | Toolbox = (),
        instructions: str = "",
        name: str = "agent",
        budget: int | IterationBudget = 90,
        retry: Retry = Retry(),  # noqa: B008  frozen, as those below are, and shown in the signature
        compression: Compression | None = Compression(),  # noqa: B008
        grace: Grace | None = Grace(),  # noqa: B008
        refund: Refund = Refund(),  # noqa: B008
        ceiling: Ceiling | None = None,
        delegation: Delegation = Delegation(),  # noqa: B008
        guard: RateGuard | None = RateGuard(),  # noqa: B008
        guardrails: Guardrails = Guardrails(),  # noqa: B008
        budget_notice: BudgetNotice | None = None,
        context_files: str | PathLike[str] | None = None,
        checkpoints: Checkpoints | None = None,
        faults: Injecting | None = None,
    ) -> None:
        fitting(
            instructions=(instructions, str), name=(name, str),
            checkpoints=(checkpoints, Checkpoints), faults=(faults, Injecting),
        )  # fmt: skip
        policies = _policies(
            retry=retry, compression=compression, grace=grace, refund=refund, ceiling=ceiling, delegation=delegation,
            guard=guard, guardrails=guardrails, budget_notice=budget_notice,
        )  # fmt: skip
        iterations(budget)
        given = {
            "models": _chain(models),
            "toolbox": tools if isinstance(tools, Toolbox) else Toolbox(tools),
            "instructions": instructions,
            "name": name,
            "budget": budget,
            "policies": policies,
            "context_files": context_files,
            "context": "" if context_files is None else read_context_file(context_files),
            "checkpoints": checkpoints,
            "faults": faults,
        }
        for key, value in given.items():
            object.__setattr__(self, key, value)

    # ------------------------------------------------------------------------------------- variants

    def with_(self, **changes: Any) -> Agent:
        """A copy with some arguments changed; the names are those of the constructor.

        Raises:
            ConfigurationError: There is no such argument, or its value cannot work.
        """
        now: dict[str, Any] = {
            "models": self.models,
            "tools": self.toolbox,
            "instructions": self.instructions,
            "name": self.name,
            "budget": self.budget,
            "context_files": self.context_files,
            "checkpoints": self.checkpoints,
            "faults": self.faults,
            **{key: getattr(self.policies, key) for key in Policies.__dataclass_fields__},
        }
        if unknown := changes.keys() - now.keys():
            msg = f"an agent has no {', '.join(sorted(unknown))}; there are: {', '.join(sorted(now))}"
            raise ConfigurationError(msg)
        return Agent(**(now | changes))

    def as_tool(self, *, budget: int = 50, name: str | None = None, description: str = "", guidance: str = "") -> Tool:
        """This agent as a tool of another one: a sub-agent, under the same trace, with a share of the budget.

        Args:
            budget: Iterations of the sub-agent's turn; they are drawn from its parent's budget too.
            name: The tool's name; the agent's if left out.
            description: What the model is told of it; the agent's instructions if left out.
            guidance: When to hand a task on to it; stands in the system prompt.
        """
        return AgentTool(self, budget, name or self.name, description, guidance)

    # ------------------------------------------------------------------------------------- turns

    def start(
        self,
        prompt: Content,
        *,
        history: History = (),
        session: Session | bool | str | PathLike[str] | None = None,
        sinks: Iterable[Sink] = (),
        tracer_provider: Any = None,
        metadata: Mapping[str, Any] | None = None,
        paused: bool = False,
    ) -> Run:
        """Start a turn in a thread beside this one.

        Args:
            prompt: The user's message: text, or content parts.
            history: The conversation before it, as messages or as dictionaries in the OpenAI form.
            session: A durable conversation, or the path of a logbook, whose newest conversation goes on; None keeps
                this one in the default logbook, False keeps nothing.
            sinks: Functions of one event, told of everything that happens.
            tracer_provider: An OpenTelemetry provider of yours that gets the spans too.
            metadata: Labels of yours; they go to the trace.
            paused: The turn waits before its first iteration, for `run.step()` or `run.resume()`.

        Raises:
            ConfigurationError: An argument cannot work.
            RunInProgress: The session is busy with another turn.
        """
        sinks = observers(sinks)
        tracing(tracer_provider)
        request = self._request(prompt, history, metadata)
        return self._launch(request, Session.of(session), sinks=sinks, tracer_provider=tracer_provider, paused=paused)

    def _launch(
        self,
        request: TurnRequest,
        session: Session | None,
        *,
        sinks: Iterable[Sink] = (),
        tracer_provider: Any = None,
        paused: bool = False,
    ) -> Run:
        if session is None:
            return self._started(request, None, sinks, tracer_provider, paused=paused)
        request = session.open_turn(request)
        try:
            return self._started(request, session, sinks, tracer_provider, paused=paused)
        except BaseException:
            session.close_turn()
            raise

    def _started(
        self,
        request: TurnRequest,
        session: Session | None,
        sinks: Iterable[Sink],
        tracer_provider: Any,
        *,
        paused: bool,
    ) -> Run:
        call = call_under_way.get()
        if call is not None and call.turn is not None:
            request = _below(request, call.turn.request.policies.delegation)
        spill = None if session is None else results_of(request.conversation_id)
        request = replace(request, toolbox=self.toolbox.fitted(self.models[0].context_window, spill))
        request = request if self.faults is None else self.faults.inject(request)
        budget = IterationBudget.of(self.budget)
        run = Run(self, request, budget, session=session, sinks=sinks, tracer_provider=tracer_provider, paused=paused)
        if call is not None:
            call.interest.follow(run)
        run._start()  # noqa: SLF001  a run is started by its agent only
        return run

    def run(
        self,
        prompt: Content,
        *,
        history: History = (),
        session: Session | bool | str | PathLike[str] | None = None,
        sinks: Iterable[Sink] = (),
        tracer_provider: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> TurnResult:
        """Run a turn to its end; as `start(...)`, then `result()`."""
        return self.start(
            prompt,
            history=history,
            session=session,
            sinks=sinks,
            tracer_provider=tracer_provider,
            metadata=metadata,
        ).result()

    def follow(
        self,
        run: Run,
        prompt: Content,
        *,
        sinks: Iterable[Sink] = (),
        metadata: Mapping[str, Any] | None = None,
        paused: bool = False,
    ) -> Run:
        """The next turn of a run's conversation; see `Run.reply`.

        Raises:
            RunInProgress: The run is not over yet.
        """
        if not run.done:
            msg = f"turn {run.turn_id} is still running; wait for its result(), or steer() it"
            raise RunInProgress(msg)
        result = run._future.result()  # noqa: SLF001  without raising a bug of that turn again
        labels = run.request.metadata if metadata is None else metadata
        request = self._request(prompt, () if run._session else carried_over(result), labels)  # noqa: SLF001
        if run._session is None:  # noqa: SLF001
            request = replace(
                request,
                conversation_id=run.conversation_id,
                number=run.request.number + 1,
                previous_turn_id=run.turn_id,
                system=result.system,
            )
        return self._launch(
            replace(request, sizes=run.request.sizes),
            run._session,  # noqa: SLF001
            sinks=observers(sinks),
            tracer_provider=run.tracer_provider,
            paused=paused,
        )

    def run_conversation(
        self,
        user_message: Content,
        system_message: str | None = None,
        conversation_history: History | None = None,
        task_id: str | None = None,
        stream_callback: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """The entry point that the Hermes documents name, with their dictionary as the result.

        Args:
            user_message: The user's message.
            system_message: Instructions for this turn instead of the agent's own.
            conversation_history: The conversation so far; it is not changed.
            task_id: A label of the caller's, kept in the trace.
            stream_callback: Called with each piece of the answer's text.
        """
        agent = self if system_message is None else self.with_(instructions=system_message)
        sinks = () if stream_callback is None else (_streaming(stream_callback),)
        metadata = {} if task_id is None else {"task_id": task_id}
        result = agent.run(
            user_message, history=conversation_history or (), session=False, sinks=sinks, metadata=metadata
        )
        return result.as_dict()

    def _request(self, prompt: Content, history: History, metadata: Mapping[str, Any] | None) -> TurnRequest:
        fitting(metadata=(metadata, Mapping))
        messages, system = coerced(history)
        return TurnRequest(
            prompt=sendable(prompt),
            history=messages,
            chain=self.models,
            toolbox=self.toolbox,
            instructions="\n\n".join(part for part in (self.instructions, system) if part),
            context=self.context,
            agent=self.name,
            policies=self.policies,
            turn_id=str(uuid.uuid4()),
            conversation_id=str(uuid.uuid4()),
            checkpoints=self.checkpoints,
            metadata=dict(metadata or {}),
        )


def _policies(**given: Any) -> Policies:
    """The policies of an agent; None switches off what a turn can be without.

    Raises:
        ConfigurationError: One of them is no such policy.
    """
    fitting(**{name: (given[name], kind) for name, kind in (KINDS | {"guard": RateGuard}).items()})
    for name, least in LEAST.items():
        if not given[name]:
            msg = f"{name}={given[name]!r}: a turn is never without; the least of it is {least}"
            raise ConfigurationError(msg)
    off: dict[str, Any] = {"compression": Compression(enabled=False), "grace": Grace(enabled=False)}
    chosen = off | {name: policy for name, policy in given.items() if policy}
    return Policies(**chosen | {"guard": _shared(given["guard"] or None)})


def _below(request: TurnRequest, parent: Delegation) -> TurnRequest:
    """The request of a turn that is started by a tool of another one.

    Raises:
        ToolFailed: That turn may start none.
    """
    if refusal := parent.refusal():
        raise ToolFailed(refusal, "delegation_depth")
    return replace(request, policies=replace(request.policies, delegation=request.policies.delegation.below(parent)))


def carried_over(result: TurnResult) -> tuple[Message, ...]:
    """The messages of a turn as the history of the next one: a failed turn's open question is left out."""
    messages = result.messages
    if result.exit_reason.failed and messages and messages[-1].role == "user":
        return messages[:-1]
    return messages


def _shared(guard: RateGuard | None) -> RateGuard | None:
    """The guard with a memory that other kernels share, if it is meant to have one."""
    if guard is None or not guard.shared or guard.store is not None:
        return guard
    return guard.with_store(GuardFile())


def _chain(models: Models) -> tuple[Provider, ...]:
    given = [models] if isinstance(models, str) or not isinstance(models, Sequence) else list(models)
    if not given:
        msg = "an agent needs at least one model, for example Agent('openai:gpt-4.1-mini') or Agent(Local())"
        raise ConfigurationError(msg)
    return tuple(map(_provider, given))


def _provider(model: str | Provider) -> Provider:
    if is_provider(model):
        return model
    from hermes_nb.providers.registry import resolve  # noqa: PLC0415  with it comes httpx, which a script does not need

    return resolve(model)


def _streaming(callback: Callable[[str], None]) -> Sink:
    def sink(event: Event) -> None:
        if isinstance(event.what, Delta) and event.what.part == "text":
            callback(event.what.text)

    return sink
