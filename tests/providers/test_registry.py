"""Model strings."""

from __future__ import annotations

import pytest

from hermes_nb.providers.anthropic import Anthropic
from hermes_nb.providers.base import as_provider
from hermes_nb.providers.endpoints import ENDPOINTS, is_loopback
from hermes_nb.providers.openai_chat import OpenAIChat
from hermes_nb.providers.registry import known_names, resolve
from hermes_nb.vocabulary.failures import ConfigurationError
from tests.support.asking import ask
from tests.support.server import Server, say


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for endpoint in ENDPOINTS.values():
        monkeypatch.delenv(endpoint.url_variable or "-", raising=False)
        if endpoint.variable:
            monkeypatch.setenv(endpoint.variable, f"key-{endpoint.name}")


@pytest.mark.parametrize("name", ENDPOINTS)
def test_every_known_name_gives_its_provider(name):
    endpoint = ENDPOINTS[name]
    provider = resolve(f"{name}:some/model:tag")
    assert isinstance(provider, Anthropic if name == "anthropic" else OpenAIChat)
    assert (provider.name, provider.model, provider.base_url) == (name, "some/model:tag", endpoint.base_url)
    assert provider.secrets == ((f"key-{name}",) if endpoint.variable else ())


@pytest.mark.parametrize("name", [name for name, e in ENDPOINTS.items() if e.variable])
def test_a_missing_key_names_its_variable(name, monkeypatch):
    endpoint = ENDPOINTS[name]
    monkeypatch.delenv(endpoint.variable)
    if is_loopback(endpoint.base_url.split("/")[2].split(":")[0]):
        assert resolve(f"{name}:m").secrets == ()  # a server on this machine may want none
        return
    with pytest.raises(ConfigurationError, match=endpoint.variable):
        resolve(f"{name}:m")


def test_the_environment_may_move_a_server(monkeypatch):
    with Server(say("moved"), say("moved too")) as server:
        monkeypatch.setenv("VLLM_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        assert ask(resolve("vllm:m")).text == "moved"
        assert ask(resolve("anthropic:m")).text == "moved too"
        assert [received.key for received in server.requests] == ["key-vllm", "key-anthropic"]


def test_a_provider_stays_what_it_is():
    async def mine(request, on_text): ...

    provider = as_provider(mine, name="mine")
    assert resolve(provider) is provider


def test_the_local_model_needs_no_name():
    assert resolve("local").name == resolve("local:").name == "local"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("gpt-4.1", "'openai:gpt-4.1'"),
        ("groq/llama", "'groq:llama'"),
        ("opnai:gpt", "did you mean 'openai:gpt'"),
        ("nobody:m", "OpenAIChat"),
        ("openai:", "names no model"),
        ("", "provider:model"),
        ("http://localhost:8080/v1", "base_url='http://localhost:8080/v1'"),
        (7, "not 7"),
        (print, "as_provider"),
    ],
)
def test_anything_else_is_told_how_to_be_written(model, said):
    with pytest.raises(ConfigurationError) as caught:
        resolve(model)
    assert said in str(caught.value)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigurationError) as caught:
        resolve("nobody:m")
    assert all(name in str(caught.value) for name in known_names())
