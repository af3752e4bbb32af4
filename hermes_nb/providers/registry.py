"""Model strings: `provider:model` becomes a provider."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING

from hermes_nb.providers.base import Provider, is_provider
from hermes_nb.providers.endpoints import ENDPOINTS
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from hermes_nb.providers.endpoints import Endpoint

LOCAL = "local"
"""The provider that runs a model on this machine, in a process of its own."""


def known_names() -> tuple[str, ...]:
    """The names that may stand before the colon."""
    return (LOCAL, *ENDPOINTS)


def resolve(model: str | Provider) -> Provider:
    """The provider that a model string names; a provider stays what it is.

    Args:
        model: `provider:model`, such as `openai:gpt-4.1-mini` or `ollama:qwen3:4b`; or a provider.

    Raises:
        ConfigurationError: The string is of another form, names no known provider, or the provider's key is missing.
    """
    if not isinstance(model, str):
        if is_provider(model):
            return model
        hint = "; make one of it with as_provider(function, name=...)" if callable(model) else ""
        msg = f"a model is a string such as 'openai:gpt-4.1-mini', or a provider, not {model!r}{hint}"
        raise ConfigurationError(msg)
    name, colon, rest = (part.strip() for part in model.partition(":"))
    if name == LOCAL:
        return _local(rest)
    if not colon or rest.startswith("//"):
        raise ConfigurationError(_no_provider(model))
    if (endpoint := ENDPOINTS.get(name)) is None:
        raise ConfigurationError(_unknown(model, name))
    if not rest:
        msg = f"{model!r} names no model; write it as {name + ':MODEL'!r}"
        raise ConfigurationError(msg)
    return _remote(endpoint, rest)


def _remote(endpoint: Endpoint, model: str) -> Provider:
    url = os.environ.get(endpoint.url_variable or "-") or endpoint.base_url
    key = os.environ.get(endpoint.variable or "-") or None
    if endpoint.api == "anthropic":
        from hermes_nb.providers.anthropic import Anthropic  # noqa: PLC0415  only when asked for

        return Anthropic(model, base_url=url, api_key=key)
    from hermes_nb.providers.openai_chat import OpenAIChat  # noqa: PLC0415

    return OpenAIChat(model, base_url=url, api_key=key, name=endpoint.name)


def _local(path: str) -> Provider:
    from hermes_nb.providers.local import Local  # noqa: PLC0415

    return Local(path or None)


def _no_provider(model: str) -> str:
    if model.startswith(("http://", "https://")):
        return f"{model!r} is an address; write OpenAIChat('MODEL', base_url={model!r})"
    name, slash, rest = model.partition("/")
    example = f"{name}:{rest}" if slash and name in ENDPOINTS else f"openai:{model or 'gpt-4.1-mini'}"
    return f"{model!r} names no provider; write it as 'provider:model', such as {example!r} (known: {_listed()})"


def _unknown(model: str, name: str) -> str:
    close = difflib.get_close_matches(name.lower(), known_names(), n=1)
    meant = f"; did you mean {close[0] + model[len(name) :]!r}?" if close else ""
    known = f"known: {_listed()}; for another server: OpenAIChat(model, base_url=...)"
    return f"no provider is called {name!r}{meant} ({known})"


def _listed() -> str:
    return ", ".join(known_names())
