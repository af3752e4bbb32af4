"""The model servers that are known by name: where they are, and which environment variable holds their key."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One known server, or kind of server.

    Attributes:
        name: As in `name:model`.
        base_url: Its address.
        variable: The environment variable of its key; empty where none is wanted.
        url_variable: An environment variable that moves the address.
        api: The API it speaks.
    """

    name: str
    base_url: str
    variable: str = ""
    url_variable: str = ""
    api: str = "openai"


ENDPOINTS = {
    endpoint.name: endpoint
    for endpoint in (
        Endpoint("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        Endpoint("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "anthropic"),
        Endpoint("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        Endpoint("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        Endpoint("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        Endpoint("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        Endpoint("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        Endpoint("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        Endpoint("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
        Endpoint("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        Endpoint("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        Endpoint("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
        Endpoint("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
        Endpoint("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
        Endpoint("nous", "https://inference-api.nousresearch.com/v1", "NOUS_API_KEY"),
        Endpoint("litellm", "http://localhost:4000/v1", "LITELLM_API_KEY", "LITELLM_BASE_URL"),
        Endpoint("ollama", "http://localhost:11434/v1", url_variable="OLLAMA_BASE_URL"),
        Endpoint("lmstudio", "http://localhost:1234/v1", url_variable="LMSTUDIO_BASE_URL"),
        Endpoint("vllm", "http://localhost:8000/v1", "VLLM_API_KEY", "VLLM_BASE_URL"),
        Endpoint("llamacpp", "http://localhost:8080/v1", "LLAMA_API_KEY", "LLAMACPP_BASE_URL"),
    )
}
"""In the order in which they are listed to people."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def known_at(base_url: str) -> Endpoint | None:
    """The known server at an address, if there is one."""
    at = urlsplit(base_url)
    for endpoint in ENDPOINTS.values():
        home = urlsplit(endpoint.base_url)
        if is_loopback(home.hostname or ""):
            if is_loopback(at.hostname or "") and at.port == home.port:
                return endpoint
        elif at.hostname == home.hostname:
            return endpoint
    return None
