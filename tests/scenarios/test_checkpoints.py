"""Files that a tool changed can be brought back."""

from __future__ import annotations

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, say
from tests.support.scripts import agent


def test_files_are_saved_before_a_tool_changes_them_and_can_be_brought_back(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("as it was")

    @hn.tool(writes=True)
    def overwrite(text: str) -> str:
        """Overwrites the notes."""
        (work / "notes.txt").write_text(text)
        return "written"

    steps = [call("overwrite", text="first"), call("overwrite", text="second"), say("done")]
    run = agent(*steps, tools=[overwrite], checkpoints=hn.Checkpoints(work)).start("q", session=False)
    assert run.result().completed
    run.restore(2)
    assert (work / "notes.txt").read_text() == "first"
    run.restore(1)
    assert (work / "notes.txt").read_text() == "as it was"
    with pytest.raises(hn.ConfigurationError, match="no checkpoints"):
        agent(say("x")).start("q", session=False).restore(1)
