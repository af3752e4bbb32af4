"""What every policy refuses: something else than a number where a number decides."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from hermes_nb.vocabulary.failures import ConfigurationError


def refuse_other_than_numbers(policy: Any) -> None:
    """Look at the fields of a policy that are annotated as numbers; infinity is one, NaN is none.

    Raises:
        ConfigurationError: One of them is no number, or too large to reckon with.
    """
    for field in fields(policy):
        kind, value = str(field.type), getattr(policy, field.name)
        optional = value is None and kind.endswith("None")
        if kind.startswith(("int", "float")) and not optional and not is_number(value):
            msg = f"{field.name} of {type(policy).__name__} is a number, not {value!r:.50}"
            raise ConfigurationError(msg)


def is_number(value: object) -> bool:
    """Whether this can be reckoned with."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False
