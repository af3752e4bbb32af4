"""The embedded model for tests: fetched when it is not there; skipped only where it cannot be had."""

from __future__ import annotations

import functools

import pytest

from hermes_nb.providers._local_engine import require_engine
from hermes_nb.providers.weights import EMBEDDED
from hermes_nb.vocabulary.failures import ConfigurationError


@functools.cache
def missing() -> str:
    """Why the embedded model cannot run here; empty if it can."""
    try:
        require_engine()
        EMBEDDED.fetch()
    except ConfigurationError as error:
        if "gave another file" in str(error):
            raise
        return str(error)
    return ""


def need_embedded_model() -> None:
    """Skip the test, with the reason, where the embedded model cannot be had."""
    if why := missing():
        pytest.skip(why)
