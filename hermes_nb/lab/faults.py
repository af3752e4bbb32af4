"""Injected failures: which of them come when, for a seed always the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeAlias

from hermes_nb.delegation import AgentTool
from hermes_nb.lab.injecting import CALLS, FULL, REQUESTS, WRITES, FaultyProvider, FaultyTool
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from hermes_nb.turn.request import TurnRequest

Wanted: TypeAlias = "float | Collection[int]"
"""A rate from 0 to 1, or the numbers of the requests (tool calls, writes) that fail, counted from 1 in each turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Failures that are injected into an agent's turns, to see what the agent does then: `agent.with_(faults=...)`.

    Each kind takes a rate (`rate_limit=0.2`: a fifth of the requests) or positions (`cut={1, 3}`: the first and the
    third request of a turn). What was injected stands in the `injected` column of the attempts, in the `error_type` of
    tool calls, and in the detail of the turn's `hermes.degraded` events. Injected rate limits are not remembered by the
    rate guard. Turns with the same seed, prompt and place in their conversation meet the same faults. The turns of
    sub-agents (`agent.as_tool()`) meet them too, with their own count of requests, by the task that they are given;
    a sub-agent with faults of its own meets those.

    Args:
        rate_limit: HTTP 429, which asks to wait for `retry_after` seconds.
        overloaded: HTTP 503.
        server_error: HTTP 500.
        timeout: The server does not answer in time; told at once.
        disconnect: The connection is lost before anything came.
        cut: The connection is lost in mid-stream, with half of the text.
        malformed: The body is not JSON.
        empty: A reply of nothing.
        unknown_tool: A call of a tool that there is not.
        bad_arguments: A call whose arguments are not JSON.
        overflow: The server says that the request is too long.
        auth: HTTP 401.
        slow: The reply's pieces come slowly, over `seconds`.
        tool_error: A tool raises instead of being run.
        tool_timeout: A tool is given up without being run; told at once.
        disk_full: The logbook has no room for what the turn writes; there is room again when the turn ends.
        script: The fault of the first request, the second, ...; None for none. Rates hold for those after it.
        places: Which providers of the chain fail, 0 for the primary; None for all.
        agents: Names of the agents that meet the faults; None for the agent and all of its sub-agents.
        retry_after: Seconds that a rate limit asks to wait; None for one that does not say.
        seconds: How long `slow` takes.
        seed: Another seed, other faults.

    Raises:
        ConfigurationError: A rate, a position, or a name in the script cannot be.
    """

    rate_limit: Wanted = 0.0
    overloaded: Wanted = 0.0
    server_error: Wanted = 0.0
    timeout: Wanted = 0.0
    disconnect: Wanted = 0.0
    cut: Wanted = 0.0
    malformed: Wanted = 0.0
    empty: Wanted = 0.0
    unknown_tool: Wanted = 0.0
    bad_arguments: Wanted = 0.0
    overflow: Wanted = 0.0
    auth: Wanted = 0.0
    slow: Wanted = 0.0
    tool_error: Wanted = 0.0
    tool_timeout: Wanted = 0.0
    disk_full: Wanted = 0.0
    script: tuple[str | None, ...] = ()
    places: Collection[int] | None = None
    agents: Collection[str] | None = None
    retry_after: float | None = None
    seconds: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for kind in (*REQUESTS, *CALLS, *WRITES):
            _check(kind, getattr(self, kind))
        for kinds in (REQUESTS, CALLS):
            if (total := sum(_rates(self._of(kinds)).values())) > 1:
                msg = f"the rates of {', '.join(_rates(self._of(kinds)))} are {total:g} together; at most 1 is possible"
                raise ConfigurationError(msg)
        if unknown := [kind for kind in self.script if kind is not None and kind not in REQUESTS]:
            msg = f"no request can fail with {unknown[0]!r}; there are: {', '.join(REQUESTS)}"
            raise ConfigurationError(msg)
        if isinstance(self.agents, str):
            msg = f"agents is a set of names of agents, such as {{{self.agents!r}}}, not {self.agents!r}"
            raise ConfigurationError(msg)
        object.__setattr__(self, "script", tuple(self.script))

    def __repr__(self) -> str:
        """Only what is not the default."""
        told = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default)
        return f"Faults({', '.join(told)})"

    def inject(self, request: TurnRequest) -> TurnRequest:
        """The turn's request with providers and tools that fail; the agent calls it when a turn starts."""
        return self.injected(request, f"{self.seed}:{request.number}:{_told(request)}")

    def injected(self, request: TurnRequest, seed: str) -> TurnRequest:
        """The request with providers and tools that fail as that seed decides, its sub-agents' included."""
        below = FaultsBelow(self, seed)
        tools = [replace(t, faults=below) if isinstance(t, AgentTool) else t for t in request.toolbox.tools.values()]
        if self.agents is not None and request.agent not in self.agents:
            return replace(request, toolbox=request.toolbox.with_(tools))
        requests = Draws(self._of(REQUESTS), f"{seed}:requests", self.script)
        calls = Draws(self._of(CALLS), f"{seed}:calls")
        writes = Draws(self._of(WRITES), f"{seed}:writes")
        chain = tuple(
            FaultyProvider(provider, requests.next, self.retry_after, self.seconds) if self._hits(place) else provider
            for place, provider in enumerate(request.chain)
        )
        toolbox = request.toolbox.with_(FaultyTool(tool, calls.next) for tool in tools)
        disk = (lambda: FULL if writes.next() else "") if self.disk_full else None
        return replace(request, chain=chain, toolbox=toolbox, disk=disk)

    def _of(self, kinds: Iterable[str]) -> dict[str, Wanted]:
        return {kind: getattr(self, kind) for kind in kinds}

    def _hits(self, place: int) -> bool:
        return self.places is None or place in self.places


class FaultsBelow:
    """The faults of the turns that sub-agents run for one turn: by their task, and by how often it was given before.

    Args:
        faults: Those of the turn.
        seed: Its seed.
    """

    def __init__(self, faults: Faults, seed: str) -> None:
        self._faults = faults
        self._seed = seed
        self._given: Counter[str] = Counter()

    def inject(self, request: TurnRequest) -> TurnRequest:
        """The sub-agent's request with providers and tools that fail."""
        told = f"{request.agent}:{_told(request)}"
        self._given[told] += 1
        return self._faults.injected(request, f"{self._seed}/{told}:{self._given[told]}")


def _told(request: TurnRequest) -> str:
    return request.prompt if isinstance(request.prompt, str) else repr(request.prompt)


class Draws:
    """Which fault comes next in one turn: the script's, that of the position, or one by chance.

    Args:
        wanted: The rate or the positions of each kind.
        seed: Decides what comes by chance.
        script: What comes first.
    """

    def __init__(self, wanted: Mapping[str, Wanted], seed: str, script: tuple[str | None, ...] = ()) -> None:
        self._positions = {kind: where for kind, where in wanted.items() if not isinstance(where, int | float)}
        self._rates = _rates(wanted)
        self._seed = seed
        self._script = script
        self._count = 0

    def next(self) -> str:
        """The fault of the next request or call; empty for none."""
        self._count += 1
        if self._count <= len(self._script):
            return self._script[self._count - 1] or ""
        for kind, where in self._positions.items():
            if self._count in where:
                return kind
        left = random.Random(f"{self._seed}:{self._count}").random()  # noqa: S311  no secret
        for kind, rate in self._rates.items():
            left -= rate
            if left < 0:
                return kind
        return ""


def _rates(wanted: Mapping[str, Wanted]) -> dict[str, float]:
    return {kind: rate for kind, rate in wanted.items() if isinstance(rate, int | float) and rate}


def _check(kind: str, wanted: object) -> None:
    """Refuse what is neither a rate nor positions.

    Raises:
        ConfigurationError: It is not.
    """
    if isinstance(wanted, int | float):
        if not isinstance(wanted, bool) and 0 <= wanted <= 1:
            return
    elif isinstance(wanted, Collection) and all(isinstance(where, int) and where > 0 for where in wanted):
        return
    msg = f"{kind} is a rate from 0 to 1, or the positions that fail, such as {{1, 3}}; not {wanted!r}"
    raise ConfigurationError(msg)
