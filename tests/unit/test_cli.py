"""The command `hermes-nb`: what it prints, its exit codes, and that no mistake of the user ends in a traceback."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

from hermes_nb.cli import main
from tests.support.server import Server, call, say, status


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """An empty working directory, so that nothing of the repository is found by chance."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def no_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_NB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def served(monkeypatch):
    """A model server at the address of `llamacpp:`."""

    @contextlib.contextmanager
    def serve(*steps):
        with Server(*steps) as server:
            monkeypatch.setenv("LLAMACPP_BASE_URL", server.url)
            yield server

    return serve


def refused(capsys, *arguments):
    """What is said when a command cannot do its work for a reason that the user can change."""
    try:
        code = main(arguments)
    except SystemExit as error:  # argparse
        code = error.code
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert "Traceback" not in said.err
    return said.err


# ------------------------------------------------------------------------------------------ one turn


def test_a_run_shows_the_answer_the_spans_and_the_budget(capsys, served):
    with served(say("Rome.")):
        assert main(["run", "What is the capital of Italy?", "--model", "llamacpp:m", "--budget", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Rome.\n\ninvoke_agent agent")
    assert "  hermes.iteration 1" in out
    assert "completed; 1 of 3 iterations used, 0 given back; " in out


def test_functions_of_a_module_in_this_folder_are_tools(capsys, served, tmp_path):
    (tmp_path / "my_tools_of_the_test.py").write_text("def double(x: int) -> int:\n    'Twice.'\n    return 2 * x\n")
    with served(call("double", x=21), say("42")) as server:
        arguments = ["run", "Twice 21?", "--model", "llamacpp:m", "--tools", "my_tools_of_the_test:double"]
        assert main(arguments) == 0
        assert server.requests[1].messages[-1]["content"] == "42"
    assert "execute_tool double" in capsys.readouterr().out


def test_the_prompt_can_come_from_the_standard_input(served, monkeypatch):
    class Typed:
        def read(self):
            return "typed"

    monkeypatch.setattr(sys, "stdin", Typed())
    with served(say("ok")) as server:
        assert main(["run", "-", "--model", "llamacpp:m"]) == 0
        assert server.requests[0].messages[-1]["content"] == "typed"


def test_several_models_are_a_chain(capsys, served):
    with served(status(404), say("from the second")):
        assert main(["run", "hello", "--model", "llamacpp:a", "--model", "llamacpp:b"]) == 0
    assert capsys.readouterr().out.startswith("from the second")


def test_a_model_cannot_drive_the_terminal(capsys, served):
    with served(say("\x1b[2Jgone\x07\r\x9b1mbold")):
        main(["run", "hello", "--model", "llamacpp:m"])
    out = capsys.readouterr().out
    assert not set("\x1b\x07\r\x9b") & set(out)
    assert "gone" in out


def test_a_turn_that_fails_says_why_and_is_1(capsys, served):
    with served(status(404, {"error": {"message": "no such model"}})):
        assert main(["run", "hello", "--model", "llamacpp:m"]) == 1
    out = capsys.readouterr().out
    assert "no such model" in out.splitlines()[0]
    assert "provider_failed; " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "prompt"),
        (["run", " "], "a turn needs a prompt"),
        (["run", "x", "--model", "nobody:m"], "no provider is called 'nobody'"),
        (["run", "x", "--budget", "many"], "a whole number from 0 up, not 'many'"),
        (["run", "x", "--tools", "nothing"], "named as MODULE:FUNCTION, for example statistics:mean, not 'nothing'"),
        (["run", "x", "--tools", "no_such_module:f"], "cannot be loaded (ModuleNotFoundError"),
        (["run", "x", "--tools", "statistics:no_such"], "has no 'no_such'"),
        (["run", "x", "--tools", "math:pi"], "3.14"),
        ([], "VERB"),
        (["dance"], "dance"),
        (["traces"], "FILE"),
        (["traces", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (["lab", "no-such-folder"], "there is no folder no-such-folder"),
        (["model"], "ACTION"),
    ],
)
def test_what_the_user_can_help_is_said_in_words_and_is_2(capsys, arguments, message):
    assert message in refused(capsys, *arguments)


# ------------------------------------------------------------------------------------------ traces


def test_traces_shows_a_report_and_the_spans(capsys, served, tmp_path):
    import hermes_nb as hn

    with served(say("ok")):
        run = hn.Agent("llamacpp:m").start("hello", session=False)
        run.result()
    run.trace.to_otlp_json(tmp_path / "turn.jsonl")
    assert main(["traces", "turn.jsonl"]) == 0
    out = capsys.readouterr().out
    assert "turn.jsonl" in out
    assert "  hermes.iteration 1" in out


# ------------------------------------------------------------------------------------------ the embedded model


def test_weights_that_are_not_there_are_said_not_to_be_there(capsys, no_weights):
    err = refused(capsys, "model", "path")
    assert f"is not in {no_weights}; fetch it: hermes-nb model fetch" in err


def test_a_source_that_is_not_there_is_one_sentence(capsys, no_weights):
    err = refused(capsys, "model", "fetch", "--from", "nowhere.gguf")
    assert err.count("\n") == 1
    assert "cannot read nowhere.gguf" in err


def test_nothing_to_remove_is_no_error(capsys, no_weights):
    assert main(["model", "remove"]) == 0
    assert capsys.readouterr().out == f"There is nothing to delete in {no_weights}\n"


@pytest.mark.local_model
@pytest.mark.timeout(600)
def test_without_a_model_the_embedded_one_answers():
    command = [sys.executable, "-m", "hermes_nb.cli", "run", "What is the capital of Italy?"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "chat qwen2.5-coder-0.5b-instruct" in done.stdout
    where = subprocess.run([sys.executable, "-m", "hermes_nb.cli", "model", "path"], capture_output=True, check=False)
    assert where.stdout.strip().endswith(b".gguf")
