"""A ready price function over the `genai-prices` package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from hermes_nb.vocabulary.messages import Usage


def price(provider: str, model: str, usage: Usage) -> float | None:
    """What a reply cost, by the list prices that the `genai-prices` package ships: `Ceiling(price=hn.price)`.

    Args:
        provider: The provider's name.
        model: The model that answered.
        usage: Its tokens; cached ones are part of the input.

    Returns:
        US dollars; None for a model that the package does not know.

    Raises:
        ConfigurationError: The package is not installed.
    """
    try:
        from genai_prices import Usage as Tokens  # noqa: PLC0415  an extra, loaded on first use
        from genai_prices import calc_price  # noqa: PLC0415
    except ImportError as error:
        msg = "hermes_nb.price needs the genai-prices package: pip install 'hermes-nb[prices]'"
        raise ConfigurationError(msg) from error
    tokens = Tokens(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        return float(calc_price(tokens, model, provider_id=provider).total_price)
    except LookupError:
        return None
