"""Where the cases of a sweep run: threads here, or whatever has a `submit` (process pools, Dask, ...)."""

from __future__ import annotations

import threading
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable


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


def submitting(executor: Executor | None) -> Submit:
    """How to hand a case out.

    Args:
        executor: The user's; None for threads of this process.

    Raises:
        ConfigurationError: The executor has no `submit`.
    """
    if executor is None:
        return _in_a_thread
    if not callable(getattr(executor, "submit", None)):
        msg = f"an executor needs submit(function, *args), as process pools and Dask clients do, not {executor!r}"
        raise ConfigurationError(msg)
    if type(executor).__module__.split(".")[0] == "distributed":
        options: dict[str, Any] = {"pure": False}
        return partial(executor.submit, **options)  # a turn is no pure function: never answered from a cache
    return executor.submit


def _in_a_thread(function: Callable[..., Any], /, *args: Any) -> Future:
    """Call a function in a thread of its own, which does not keep the program from ending, as those of a pool would."""
    future: futures.Future[Any] = futures.Future()

    def call() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as error:  # noqa: BLE001  whoever waits is told
            future.set_exception(error)

    threading.Thread(target=call, name="hermes_nb sweep", daemon=True).start()
    return future
