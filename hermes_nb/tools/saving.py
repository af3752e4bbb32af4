"""Checkpoints while a turn runs: at most one snapshot for each directory and iteration, sub-agents' included."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from hermes_nb.tools.threads import run_in_thread
from hermes_nb.vocabulary.events import Checkpointed, Degraded
from hermes_nb.vocabulary.failures import HermesError, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hermes_nb.tools.checkpoints import Checkpoints
    from hermes_nb.tools.definition import ToolOptions
    from hermes_nb.vocabulary.events import Telling


class Saves:
    """The snapshots of one turn. Its sub-agents share them: their changes belong to the iteration that they work in.

    Args:
        turn_id: The turn whose iterations the snapshots are named after.
        iteration: The iteration under way.
    """

    def __init__(self, turn_id: str, iteration: int = 0) -> None:
        self.turn_id = turn_id
        self._iteration = iteration
        self._saved: set[Path] = set()
        self._lock = anyio.Lock()

    def begin(self, iteration: int) -> None:
        """Another iteration of the turn: the next change is saved again."""
        self._iteration = iteration
        self._saved.clear()

    async def before(
        self, checkpoints: Checkpoints, options: ToolOptions, arguments: Mapping[str, Any], recorder: Telling
    ) -> None:
        """Take a snapshot before the iteration's first tool that changes files; a failure is told, not raised."""
        if not options.writes:
            return
        async with self._lock:
            path = arguments.get(options.writes) if isinstance(options.writes, str) else None
            if checkpoints.directory in self._saved or not checkpoints.covers(path):
                return
            self._saved.add(checkpoints.directory)
            take = partial(checkpoints.snapshot, self.turn_id, self._iteration)
            try:
                snapshot = await run_in_thread(take, name="checkpoint", on_abandoned=lambda: None)
            except Exception as error:  # noqa: BLE001  the tool runs all the same
                told = str(error) if isinstance(error, HermesError) else in_words(error)
                recorder.tell(Degraded("checkpoint", told))
                return
            recorder.tell(Checkpointed(str(checkpoints.directory), snapshot.id))
            if snapshot.left_out:
                recorder.tell(Degraded("checkpoint", f"not saved: {', '.join(snapshot.left_out[:5])}"))
