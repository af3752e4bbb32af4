"""The magics: `%load_ext hermes_nb`, then `%%turn`, `%steer`, `%interrupt`, `%turns`."""

from __future__ import annotations

import re
from datetime import datetime
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.display import display

from hermes_nb.agent import Agent
from hermes_nb.logbook import Logbook
from hermes_nb.run import Run
from hermes_nb.vocabulary.failures import HermesError
from hermes_nb.widgets import safe, words
from hermes_nb.widgets.text import table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from IPython.core.interactiveshell import InteractiveShell

T = TypeVar("T")

_NAMED = re.compile(r"\s*(?:--run|-r)[ =]+([^\W\d]\w*)\s*")
_Parser: Any = MagicArgumentParser  # IPython has no types for it
_TURN = _Parser(prog="%%turn")
_TURN.add_argument("agent", nargs="?")
_TURN.add_argument("--budget", type=int)
_TURN.add_argument("--as", dest="name")
_TURN.add_argument("--paused", action="store_true")
_TURN.add_argument("--wait", action="store_true")
_INTERRUPT = _Parser(prog="%interrupt")
_INTERRUPT.add_argument("--run", "-r")
_INTERRUPT.add_argument("--after-iteration", action="store_true")
_TURNS = _Parser(prog="%turns")
_TURNS.add_argument("-n", type=int, default=12)
_TURNS.add_argument("--logbook")
_COLUMNS = ("name", "turn", "began", "agent", "state", "prompt")


@magics_class
class TurnMagics(Magics):
    """Start, steer and stop turns with a line each."""

    @no_var_expand
    @cell_magic
    def turn(self, line: str, cell: str) -> Run | None:
        """`%%turn [AGENT] [--budget N] [--as NAME] [--paused] [--wait]`: start a turn, with the cell as the prompt.

        The text is taken as it stands there. The cell's value is the run, shown as its panel; `--as` also binds it to
        a variable. `--wait` waits for the end; Stop interrupts the turn.
        """
        wanted = _parsed(_TURN, line)
        name = wanted.name
        if name is not None and (not name.isidentifier() or iskeyword(name)):
            msg = f"--as needs the name of a variable, not {name!r}"
            raise UsageError(msg)
        try:
            agent = self._agent(wanted.agent)
            agent = agent if wanted.budget is None else agent.with_(budget=wanted.budget)
            run = agent.start(cell.strip("\n"), paused=wanted.paused)
        except (HermesError, ValueError) as error:
            raise UsageError(str(error)) from error
        if name is not None:
            self._space[name] = run
        if not wanted.wait:
            return run
        display(run)  # type: ignore[no-untyped-call]  # IPython's
        run.result()
        return None

    @no_var_expand
    @line_cell_magic
    def steer(self, line: str, cell: str | None = None) -> str:
        """`%steer [--run NAME] TEXT`, or `%%steer` with a cell of text: tell the running turn something.

        The text is taken as it stands there. The value says what became of it.
        """
        named = _NAMED.match(line)
        text = line[named.end() :] if named else line
        if cell is not None:
            if text.strip():
                msg = f"the text of %%steer is the cell's; unexpected: {text.strip()!r}"
                raise UsageError(msg)
            text = cell.strip("\n")
        run = self._running(named[1] if named else None)
        try:
            note = run.steer(text)
        except ValueError as error:
            msg = f"{error}: %steer [--run NAME] text"
            raise UsageError(msg) from error
        return f"steer {note.id}: {note.status}{f' ({note.reason})' if note.reason else ''}"

    @line_magic
    def interrupt(self, line: str) -> None:
        """`%interrupt [--run NAME] [--after-iteration]`: end the running turn; everything up to there is kept."""
        wanted = _parsed(_INTERRUPT, line)
        self._running(wanted.run).interrupt(when="boundary" if wanted.after_iteration else "now")

    @line_magic
    def turns(self, line: str) -> TurnList:
        """`%turns [-n N] [--logbook PATH]`: the turns of this kernel, and the newest ones in the logbook."""
        wanted = _parsed(_TURNS, line)
        here = _runs(self._space)
        if wanted.logbook is not None and not Path(wanted.logbook).expanduser().exists():
            msg = f"there is no logbook at {wanted.logbook!r}"
            raise UsageError(msg)
        try:
            past = [turn for turn in Logbook(wanted.logbook).turns() if not turn.parent_turn_id]
        except HermesError as error:
            raise UsageError(str(error)) from error
        known = {turn.id: turn for turn in past}
        rows = [_of_run(name, run, known.get(run.turn_id)) for name, run in here.items()]
        seen = {run.turn_id for run in here.values()}
        newest = sorted(past, key=lambda turn: turn.started_at, reverse=True)
        rows += [_of_record(turn) for turn in newest if turn.id not in seen][: max(0, wanted.n)]
        return TurnList(rows)

    # ------------------------------------------------------------------------------------- names

    @property
    def _space(self) -> dict[str, Any]:
        space: dict[str, Any] = self._shell.user_ns
        return space

    @property
    def _shell(self) -> Any:
        return self.shell

    def _agent(self, expression: str | None) -> Agent:
        everything = _named(self._space, Agent)
        agents = {name: agent for name, agent in everything.items() if not name.startswith("_")} or everything
        if expression is None:
            if len(agents) == 1:
                return next(iter(agents.values()))
            msg = f"which agent? %%turn AGENT; there {_list(agents)}"
            raise UsageError(msg)
        try:
            found: object = self._shell.ev(expression)
        except Exception as error:
            msg = f"{expression!r} cannot be the agent: {error}; there {_list(agents)}"
            raise UsageError(msg) from error
        if not isinstance(found, Agent):
            msg = f"{expression!r} is not an agent but {type(found).__name__}; there {_list(agents)}"
            raise UsageError(msg)
        return found

    def _running(self, name: str | None) -> Run:
        running = {key: run for key, run in _runs(self._space).items() if not run.done}
        if name is not None:
            found = self._space.get(name)
            if not isinstance(found, Run):
                msg = f"{name!r} is not a run; running: {', '.join(running) or 'none'}"
                raise UsageError(msg)
            return found
        if len(running) == 1:
            return next(iter(running.values()))
        if not running:
            msg = "no turn is running"
            raise UsageError(msg)
        msg = f"several turns are running; say which with --run: {', '.join(running)}"
        raise UsageError(msg)


def _parsed(parser: Any, line: str) -> Any:
    """The options of a line."""
    try:
        return parser.parse_argstring(line)
    except ValueError as error:  # of the shell's quotes
        msg = f"{parser.prog} cannot read its line: {error}"
        raise UsageError(msg) from error


def _list(names: Iterable[str]) -> str:
    return f"is: {', '.join(names)}" if [*names] else "is none yet: agent = hermes_nb.Agent(...)"


def _named(space: dict[str, Any], kind: type[T]) -> dict[str, T]:
    """The values of a class, each once, by a name of the user's where it has one, else by one of the notebook's."""
    found: dict[int, tuple[str, T]] = {}
    for name, value in sorted(space.items(), key=lambda item: item[0].startswith("_")):
        if isinstance(value, kind):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def _runs(space: dict[str, Any]) -> dict[str, Run]:
    return _named(space, Run)


# ------------------------------------------------------------------------------------------ %turns


class TurnList:
    """A table of turns, for a terminal and for a notebook."""

    def __init__(self, rows: list[tuple[str, ...]]) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return table(_COLUMNS, self.rows) if self.rows else "no turns yet"

    def _repr_html_(self) -> str:
        cells = [_row("th", _COLUMNS), *(_row("td", row) for row in self.rows)]
        return f"<table>{''.join(cells)}</table>" if self.rows else "<p>no turns yet</p>"


def _row(tag: str, texts: Iterable[str]) -> str:
    cells = (f'<{tag} style="text-align:left">{safe.escape(text)}</{tag}>' for text in texts)
    return f"<tr>{''.join(cells)}</tr>"


def _of_run(name: str, run: Run, record: Any) -> tuple[str, ...]:
    state = run.state if not run.done or record is None else _end(record)
    began = _time(record.started_at) if record else ""
    prompt = run.request.prompt
    named = "" if name.startswith("_") else name
    return (named, run.turn_id[:8], began, run.agent.name, state, safe.line(safe.content(prompt, 200), 60))


def _of_record(record: Any) -> tuple[str, ...]:
    return ("", record.id[:8], _time(record.started_at), record.agent, _end(record), safe.line(record.prompt, 60))


def _end(record: Any) -> str:
    return words.reason(record.exit_reason) if record.exit_reason else "unfinished"


def _time(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(nanoseconds / 1e9).astimezone():%Y-%m-%d %H:%M:%S}"


# ------------------------------------------------------------------------------------------ the extension


_OPTIONS = {
    "%%turn": ("--as", "--budget", "--paused", "--wait"),
    "%steer": ("--run",),
    "%interrupt": ("--after-iteration", "--run"),
    "%turns": ("--logbook", "-n"),
}


def _complete(shell: InteractiveShell, event: Any) -> list[str]:
    """Names of agents after `%%turn`, of running turns after `--run`, and the options."""
    magic, *before = event.line.split()
    before = before[: len(before) - (0 if event.line.endswith(" ") else 1)]
    if before and before[-1] in ("--run", "-r"):
        return [name for name, run in _runs(shell.user_ns).items() if not run.done]
    names = [*_named(shell.user_ns, Agent)] if magic == "%%turn" and not before else []
    return names + [option for option in _OPTIONS.get(magic, ()) if option not in before]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext hermes_nb`."""
    shell.register_magics(TurnMagics)
    for magic in _OPTIONS:
        shell.set_hook("complete_command", _complete, str_key=magic)  # type: ignore[no-untyped-call]  # IPython's


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext hermes_nb`."""
    for kind, names in (("cell", ("turn", "steer")), ("line", ("steer", "interrupt", "turns"))):
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
