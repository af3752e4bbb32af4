"""What a model is told before everything else."""

from __future__ import annotations

import pytest

import hermes_nb as hn
from hermes_nb.testing import say
from tests.support.scripts import agent, run


def test_the_system_prompt_tells_who_answers_the_day_the_instructions_and_the_context_file(tmp_path):
    (tmp_path / "AGENTS.md").write_text("Use metric units.")
    (tmp_path / "CLAUDE.md").write_text("Not read.")
    seen = []

    def look(request):
        seen.append(request.messages[0].text)
        return say("ok")

    run(agent(look, instructions="Be brief.", context_files=tmp_path))

    parts = seen[0].split("\n\n")
    assert parts[0] == "Model: script\nProvider: script"
    assert parts[1].startswith("Date: 20")
    assert parts[2] == "Be brief."
    assert "Use metric units." in seen[0]
    assert "Not read." not in seen[0]


def test_a_long_context_file_keeps_its_beginning_and_its_end(tmp_path):
    (tmp_path / "AGENTS.md").write_text("begin" + "x" * 50_000 + "end")
    made = agent(context_files=tmp_path)

    assert len(made.context) < 21_000
    assert "begin" in made.context
    assert made.context.endswith("end")
    with pytest.raises(hn.ConfigurationError, match="no directory"):
        agent(context_files=tmp_path / "nowhere")
