"""The settings of a turn as plain values: they stand on its span, and a replay makes the policies of them again."""

from __future__ import annotations

import math
import time
from dataclasses import fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from hermes_nb.policies.compression import Compression, CompressionState
from hermes_nb.policies.guardrails import Guardrails
from hermes_nb.policies.limits import BudgetNotice, Ceiling, Delegation, Grace, Refund
from hermes_nb.policies.retry import Retry
from hermes_nb.turn.request import Policies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.providers.base import Provider
    from hermes_nb.turn.request import TurnRequest

KINDS: dict[str, type[Any]] = {
    "retry": Retry,
    "compression": Compression,
    "grace": Grace,
    "refund": Refund,
    "ceiling": Ceiling,
    "delegation": Delegation,
    "guardrails": Guardrails,
    "budget_notice": BudgetNotice,
}
"""The policies that are made of plain values; a guard remembers, and is none of them."""

OPTIONAL = frozenset(field.name for field in fields(Policies) if field.default is None)
"""Those that a turn may be without: where nothing is recorded of one, the turn had none."""


def settings_of(request: TurnRequest) -> dict[str, Any]:
    """Every number and word by which a turn is decided: `policy.field`, and the chain."""
    found: dict[str, Any] = {}
    for name in KINDS:
        policy = getattr(request.policies, name)
        for field in fields(policy) if policy is not None else ():
            value = getattr(policy, field.name)
            found[f"{name}.{field.name}"] = _named(value) if callable(value) else value
    for field in fields(request.sizes):
        found[f"sizes.{field.name}"] = getattr(request.sizes, field.name)
    found["sizes.quiet_until"] = max(0.0, request.sizes.quiet_until - time.monotonic())
    return found | {"chain": [_entry(provider) for provider in request.chain]}


def _named(function: Any) -> str:
    return f"function {getattr(function, '__qualname__', type(function).__qualname__)}"


def _entry(provider: Provider) -> dict[str, Any]:
    host, port = provider.address
    return {
        "provider": provider.name,
        "model": provider.model,
        "identity": blake2b(provider.identity.encode("utf-8", "replace"), digest_size=8).hexdigest(),
        "context_window": provider.context_window,
        "stream": provider.stream,
        "server_address": host,
        "server_port": port,
        "parameters": dict(provider.parameters),
    }


def policies_of(settings: Mapping[str, Any], functions: Mapping[str, Any] | None = None) -> Policies:
    """The policies that a turn had; what was not kept has its default.

    Args:
        settings: As `settings_of` gave them, or as JSON gave them back.
        functions: What stands in for functions, which cannot be kept: by setting, such as `ceiling.price`.
    """
    known = dict(settings)
    for name, function in (functions or {}).items():
        if _is_function(known.get(name)):
            known[name] = function
    return Policies(guard=None, **{name: _made(kind, name, known) for name, kind in KINDS.items()})


def sizes_of(settings: Mapping[str, Any]) -> CompressionState:
    """What was known about the size of requests when the turn began."""
    sizes = CompressionState(**_fields(CompressionState, "sizes", settings))
    sizes.quiet_until = time.monotonic() + max(0.0, sizes.quiet_until)
    return sizes


def _made(kind: type[Any], name: str, settings: Mapping[str, Any]) -> Any:
    values = _fields(kind, name, settings)
    return None if name in OPTIONAL and not values else kind(**values)


def _fields(kind: type[Any], name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    found = {field.name: settings.get(f"{name}.{field.name}") for field in fields(kind)}
    return {key: _value(value) for key, value in found.items() if value is not None and not _is_function(value)}


def _is_function(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("function ")


def _value(value: Any) -> Any:
    """A value as the policy has it: JSON knows no tuples and no infinity."""
    if isinstance(value, list | tuple):
        return tuple(map(_value, value))
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(value, value) if isinstance(value, str) else value
