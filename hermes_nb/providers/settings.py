"""The arguments of providers, checked at once: before anything is sent."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from hermes_nb.providers.credentials import CredentialPool
from hermes_nb.providers.endpoints import is_loopback, known_at
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.providers.endpoints import Endpoint


def checked_model(model: str) -> str:
    """The model's name.

    Raises:
        ConfigurationError: It is no text, or empty.
    """
    if not isinstance(model, str) or not model.strip():
        msg = f"a model is named by a text such as 'gpt-4.1-mini', not {model!r}"
        raise ConfigurationError(msg)
    return model.strip()


def on_this_machine(url: str) -> bool:
    """Whether an address is on the loopback."""
    return is_loopback(urlsplit(url).hostname or "")


def credentials_for(url: str, api_key: str | CredentialPool | None, home: Endpoint) -> CredentialPool | None:
    """The keys for an address: those given, or that of the environment; None for a server that wants none.

    Args:
        url: Where they are sent.
        api_key: What was given.
        home: The server whose API is spoken there; its key goes nowhere else.

    Raises:
        ConfigurationError: The server is elsewhere and no key was found.
    """
    if isinstance(api_key, CredentialPool):
        return api_key
    if api_key is not None:
        return CredentialPool([api_key]) if api_key else None
    known = known_at(url)
    if known and known.variable and (found := os.environ.get(known.variable)):
        return CredentialPool([found])
    if on_this_machine(url):
        return None
    at_home = f"{home.variable} is sent to {urlsplit(home.base_url).hostname} only; "
    found_in = f"set {known.variable}, or " if known else at_home
    msg = f"no key for {url}: {found_in}give api_key=..., or api_key='' for a server that wants none"
    raise ConfigurationError(msg)


def place_of(
    endpoint: Endpoint, base_url: str | None, api_key: str | CredentialPool | None
) -> tuple[str, CredentialPool | None]:
    """The address and the keys of a server that is `endpoint` unless the arguments or the environment say otherwise.

    Raises:
        ConfigurationError: The address is none, or the key is missing.
    """
    moved = None if base_url else os.environ.get(endpoint.url_variable)
    url = checked_url(base_url or moved or endpoint.base_url)
    if moved and api_key is None:  # the environment names both
        api_key = os.environ.get(endpoint.variable) or None
    return url, credentials_for(url, api_key, endpoint)


def checked_url(base_url: str) -> str:
    """The base URL without a slash or the method's path at its end.

    Raises:
        ConfigurationError: It is no HTTP address, or holds a key.
    """
    try:
        at = urlsplit(base_url)
        good = at.scheme in ("http", "https") and bool(at.hostname) and (at.port is None or at.port > 0)
    except (ValueError, AttributeError):
        good = False
    if not good:
        msg = f"base_url is an address such as http://localhost:8080/v1, not {base_url!r}"
        raise ConfigurationError(msg)
    if at.username or at.password:
        msg = "base_url must not hold a name or a password; give api_key= or headers="
        raise ConfigurationError(msg)
    path = at.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/messages")
    return urlunsplit(at._replace(path=path, fragment=""))


_OF_THE_BODY = ("content-length", "transfer-encoding")


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, with their names in lower case.

    Raises:
        ConfigurationError: One cannot be sent. The message does not show its value.
    """
    for name, value in headers.items():
        if not name or not _sendable(name) or not _sendable(value):
            msg = f"the header {name!r} must be printable ASCII text"
            raise ConfigurationError(msg)
        if name.lower() in _OF_THE_BODY:
            msg = f"the header {name!r} follows from the body of each request; leave it out"
            raise ConfigurationError(msg)
    return {name.lower(): value for name, value in headers.items()}


def _sendable(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable()


def checked_parameters(parameters: Mapping[str, Any], owned: frozenset[str]) -> dict[str, Any]:
    """The request parameters, if they can be sent.

    Raises:
        ConfigurationError: One is set by the loop, or is not JSON.
    """
    for key, value in parameters.items():
        if key in owned:
            msg = f"{key!r} is set for each request and cannot be a parameter of the provider"
            raise ConfigurationError(msg)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            msg = f"the parameter {key}={value!r} cannot be written as JSON: {error}"
            raise ConfigurationError(msg) from None
    return dict(parameters)
