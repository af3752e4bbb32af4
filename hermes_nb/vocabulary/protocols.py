"""Whether something is what a protocol asks for."""

from __future__ import annotations

from typing import Any


def conforms(value: object, protocol: type[Any]) -> bool:
    """Whether an object has every part of a protocol, also where it finds them only when asked for (`__getattr__`).

    From Python 3.12 on, `isinstance` looks for them in the class alone, and refuses an object that delegates.
    """
    parts = [name for name in vars(protocol) if not name.startswith("_")]
    return not isinstance(value, type) and all(hasattr(value, name) for name in parts)
