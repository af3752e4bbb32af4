"""Where the cases of a sweep run: threads here, or whatever has a `submit` (process pools, Dask, ...)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack


class Future(Protocol):
    """What `submit` gives."""

    def add_done_callback(self, function: Callable[[Any], object], /) -> object:
        """Call the function with this future when it is over, also when it is that already."""

    def result(self) -> Any:
        """The value, or the exception raised."""


class Executor(Protocol):
    """Any `concurrent.futures.Executor`, a `dask.distributed.Client`, or an object of yours with this method.

    What is submitted can be pickled, if the agent can: use tools that are functions of a module. The workers must see
    the study's files. An executor may run a case again when it lost a worker; the case counts once.
    """

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future:
        """Call `function(*args)` somewhere."""


Submit = Any
"""`submit(function, *args) -> Future`."""


def submitting(executor: Executor | None, parallel: int, closing: ExitStack) -> Submit:
    """How to hand a case out.

    Args:
        executor: The user's; None for threads of this process.
        parallel: How many threads.
        closing: Told how to close what was opened here.

    Raises:
        ConfigurationError: The executor has no `submit`.
    """
    if executor is None:
        pool = ThreadPoolExecutor(parallel, thread_name_prefix="hermes_nb sweep")
        closing.callback(pool.shutdown, wait=False)
        return pool.submit
    if not callable(getattr(executor, "submit", None)):
        msg = f"an executor needs submit(function, *args), as process pools and Dask clients do, not {executor!r}"
        raise ConfigurationError(msg)
    if type(executor).__module__.split(".")[0] == "distributed":
        options: dict[str, Any] = {"pure": False}
        return partial(executor.submit, **options)  # a turn is no pure function: never answered from a cache
    return executor.submit
