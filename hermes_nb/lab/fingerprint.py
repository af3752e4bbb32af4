"""Fingerprints of agents: all that decides what their turns do, as plain values that are the same in every process."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any

from hermes_nb.agent import Agent
from hermes_nb.delegation import AgentTool
from hermes_nb.lab.wrapping import sub_agents
from hermes_nb.providers.base import Provider, is_provider
from hermes_nb.telemetry.redaction import is_secret_name, without_keys
from hermes_nb.tools.definition import FunctionTool, Tool, is_tool
from hermes_nb.turn.redaction import SHORTEST
from hermes_nb.turn.request import Policies
from hermes_nb.vocabulary.budget import IterationBudget
from hermes_nb.vocabulary.texts import REDACTED

SHOWN = 100
"""Characters of a value that a difference shows."""

BEFORE = 30
"""Characters of them before the place where two texts part."""

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""What the code of a function depends on, besides the function."""

_CODE = re.compile(r"(?P<name>.*) \(code (?P<python>[\d.]+)-[0-9a-f]+\)")

Settings = dict[str, Any]
"""Plain values by names with dots, such as `policies.retry.attempts`."""


def described(agent: Agent) -> Settings:
    """Every setting of an agent and of its sub-agents; keys are masked, and there are no memory addresses.

    A function is told by its name and a digest of its compiled code, of the functions of its module that it calls, of
    its defaults and of the plain values in its closure.
    """
    models = [model for one in (agent, *sub_agents(agent)) for model in one.models]
    secrets = {secret for model in models for secret in model.secrets if len(secret) >= SHORTEST}
    return {name: _masked(value, secrets) for name, value in _flat("", _agent(agent))}


def fingerprint(settings: Settings) -> str:
    """A digest of settings."""
    text = json.dumps(settings, sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def differences(old: Settings, new: Settings) -> list[str]:
    """The settings that differ, each in one line with both values; code of another Python is not compared."""
    names = (name for name in sorted(old.keys() | new.keys()) if not _same(old.get(name), new.get(name)))
    return [f"{name} was {_shown(old, name, new)}, is {_shown(new, name, old)}" for name in names]


# ------------------------------------------------------------------------------------------- objects


def _agent(agent: Agent) -> dict[str, Any]:
    box = agent.toolbox
    return {
        "models": list(map(_provider, agent.models)),
        "tools": {name: _tool(tool) for name, tool in box.tools.items()},
        "toolbox": {name: getattr(box, name) for name in ("workers", "batch_timeout", "result_limit", "batch_limit")},
        "instructions": agent.instructions,
        "context": agent.context,
        "budget": _plain(agent.budget),
        "checkpoints": _plain(agent.checkpoints),
        "faults": _plain(agent.faults),
        **{name: _plain(getattr(agent.policies, name)) for name in Policies.__dataclass_fields__},
    }


def _provider(provider: Provider) -> dict[str, Any]:
    """The kind and the fields of a provider, and what all providers tell."""
    host, port = provider.address
    own: dict[str, Any] = _fields(provider) if is_dataclass(provider) else {}
    told = {"provider": provider.name, "model": provider.model, "server": f"{host}:{port}" if host else ""}
    shared = {name: _plain(getattr(provider, name)) for name in ("stream", "context_window", "parameters")}
    return {"kind": type(provider).__qualname__, **own, **told, **shared}


def _tool(tool: Tool) -> dict[str, Any]:
    spec = tool.spec
    told = {"description": spec.description, "parameters": _plain(spec.parameters), "guidance": spec.guidance}
    told |= {"options": _fields(tool.options)}
    if isinstance(tool, AgentTool):
        return told | {"budget": tool.budget, "agent": _agent(tool.agent)}
    if isinstance(tool, FunctionTool):
        return told | {"function": _code(tool.function)}
    return told | {"kind": type(tool).__qualname__}


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass; those that it does not show or does not compare do not count."""
    return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.repr and f.compare}


def _plain(value: Any) -> Any:  # noqa: PLR0911  one return for each kind of value
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else repr(value)
    if isinstance(value, Mapping):
        return {str(key): REDACTED if is_secret_name(key) else _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, IterationBudget):
        return value.view().limit
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return _object(value)


def _object(value: Any) -> Any:
    if isinstance(value, Agent):
        return _agent(value)
    if is_provider(value):
        return _provider(value)
    if is_tool(value):
        return _tool(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__qualname__, **_fields(value)}
    return _code(value) if callable(value) else f"a {type(value).__qualname__}"


# ------------------------------------------------------------------------------------------- functions


def _code(function: Any) -> str:
    """A function, a method, a partial or an object that can be called: its name, and the digest of its code."""
    told: list[Any] = []
    while isinstance(function, functools.partial):
        told.append([_plain(function.args), _plain(function.keywords)])
        function = function.func
    inner = inspect.unwrap(function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    inner = getattr(inner, "__func__", inner)
    if not isinstance(inner, FunctionType):
        inner = getattr(type(inner), "__call__", None)  # noqa: B004  its code is asked for, not whether it exists
    if not isinstance(inner, FunctionType):
        return f"{getattr(function, '__module__', '')}.{name}"
    told += _function(inner, set())
    return f"{name} (code {PYTHON}-{_digest(told)})"


def _function(function: FunctionType, seen: set[CodeType]) -> list[Any]:
    """What a function does, and the functions of its module that it may call."""
    seen.add(function.__code__)
    cells = [_content(cell) for cell in function.__closure__ or ()]
    values = [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    found = [_compiled(function.__code__), *(_value(value, seen) for value in values)]
    for name in sorted(_names(function.__code__)):
        other = function.__globals__.get(name)
        if isinstance(other, FunctionTool):
            other = other.function
        if isinstance(other, FunctionType) and other.__module__ == function.__module__ and other.__code__ not in seen:
            found.append(_function(other, seen))
    return found


def _value(value: Any, seen: set[CodeType]) -> Any:
    if isinstance(value, FunctionType):
        return _function(value, seen) if value.__code__ not in seen else value.__qualname__
    if value is None or isinstance(value, bool | int | float | str | list | tuple | Mapping | Enum):
        return _masked(json.dumps(_plain(value), sort_keys=True), ())
    return type(value).__qualname__


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is in it yet
        return None


def _compiled(code: CodeType) -> list[Any]:
    constants = [_compiled(one) if isinstance(one, CodeType) else _constant(one) for one in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames]


def _constant(value: Any) -> str:
    """A constant in words; those of a set have no order."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _names(code: CodeType) -> set[str]:
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _digest(told: Any) -> str:
    return blake2b(json.dumps(told).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


# ------------------------------------------------------------------------------------------- texts


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values of nested dictionaries and lists, each under its path."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items or not value:
        yield name, value
        return
    for key, item in items:
        yield from _flat(f"{name}.{key}" if name else str(key), item)


def _masked(value: Any, secrets: Any) -> Any:
    if not isinstance(value, str):
        return value
    for secret in secrets:
        value = value.replace(secret, REDACTED)
    return without_keys(value)


def _same(old: Any, new: Any) -> bool:
    if old == new:
        return True
    one, other = (_CODE.fullmatch(value) if isinstance(value, str) else None for value in (old, new))
    return one is not None and other is not None and one["name"] == other["name"] and one["python"] != other["python"]


def _shown(settings: Settings, name: str, others: Settings) -> str:
    """A value in words; of a long text what stands where it parts from the other one."""
    if name not in settings:
        return "not there"
    value, other = settings[name], others.get(name)
    if not isinstance(value, str) or len(value) <= SHOWN:
        return repr(value)
    pairs = enumerate(zip(value, str(other), strict=False))
    start = max(0, next((place for place, (a, b) in pairs if a != b), 0) - BEFORE)
    end = start + SHOWN
    return f"{'...' * (start > 0)}{value[start:end]!r}{'...' * (end < len(value))}"
