"""What the documentation site takes from the code at build time: tables, the loop, and the notebooks.

A page says `<!-- insert: NAME -->` where something of this file belongs, so that nothing of the code is written twice.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
import shutil
import tempfile
import textwrap
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

from hermes_nb import Agent, CredentialPool, Timeouts, Toolbox, cli
from hermes_nb.policies.compression import Compression
from hermes_nb.policies.guard import RateGuard
from hermes_nb.policies.guardrails import Guardrails
from hermes_nb.policies.limits import BudgetNotice, Ceiling, Delegation, Grace, Refund
from hermes_nb.policies.recovery import RECOVERY, Step
from hermes_nb.policies.retry import Retry
from hermes_nb.providers.endpoints import ENDPOINTS
from hermes_nb.traces.schema import markdown
from hermes_nb.turn import steps
from hermes_nb.turn.loop import run_turn
from hermes_nb.turn.result import ExitReason
from hermes_nb.turn.room import make_room

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent
LONGEST = 24  # characters of a default
PLACE = re.compile(r"<!-- insert: (\w+) -->")
FOREIGN = re.compile(r"<script>(?:(?!</script>).)*addWidgetsRenderer.*?</script>", re.DOTALL)
LONG = re.compile(r"<code>([\w./]{25,})</code>")
WIDEST = 64  # characters of a step's description beside its name, so that nobody has to scroll


def on_startup(**_: Any) -> None:
    """Let the notebooks keep their turns in a folder of the build, not in the logbook of whoever builds."""
    os.environ["HERMES_NB_HOME"] = tempfile.mkdtemp(prefix="hermes-nb-site-")


def on_shutdown() -> None:
    """Remove that folder."""
    shutil.rmtree(os.environ["HERMES_NB_HOME"], ignore_errors=True)


@event_priority(100)
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebooks, which live outside of `docs/`, before the notebook plugin looks for them."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_config(config: MkDocsConfig) -> None:
    """Say which version the pages are about."""
    config.copyright = f"hermes_nb {version('hermes-nb')} · Apache-2.0"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the insertions in their places."""
    return PLACE.sub(lambda match: globals()[match[1]](), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Let long names break between their words, so that tables fit."""
    return LONG.sub(lambda match: "<code>" + re.sub("([_./])", r"\1<wbr>", match[1]) + "</code>", html)


def on_post_page(output: str, **_: Any) -> str:
    """Leave out what loads the drawing of live widgets from elsewhere: records of turns are drawn already.

    Their tables get a class: the theme restyles those that have none.
    """
    return FOREIGN.sub("", output).replace("<table style=", '<table class="record" style=')


def others_do_not() -> str:
    """The README's table of what the library does that others do not."""
    readme = (ROOT / "README.md").read_text()
    tables: list[str] = re.findall(r"## What it does that others do not\n\n(.*?)\n\n", readme, re.DOTALL)
    return tables[0].replace("(docs/", "(")


def contributing() -> str:
    """How to contribute; what is beside it in the repository is no link here."""
    return re.sub(r"\[([^]]+)\]\(changes/README\.md\)", r"\1", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def changelog() -> str:
    """What has changed."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def loop() -> str:
    """The source of the loop, without what is said to the linter."""
    source = re.sub(r"  # noqa: \w+  ", "  # ", inspect.getsource(run_turn))
    return f"```python\n{source}```"


def drawing() -> str:
    """The steps of an iteration, in the order in which the loop calls them, with what their docstrings say first."""
    [passes] = [node for node in ast.walk(ast.parse(inspect.getsource(run_turn))) if isinstance(node, ast.While)]
    calls = sorted((n.lineno, n.col_offset, ast.unparse(n.func)) for n in ast.walk(passes) if isinstance(n, ast.Call))
    known = {f"steps.{name}": step for name, step in vars(steps).items()} | {"make_room": make_room}
    boxes = [_said(known[name].__name__, known[name].__doc__) for *_, name in calls if name in known]
    first, *middle, last = [line for box in boxes for line in box]
    way = [f"  ┌─▶ {first}", *(f"  │   {line}" for line in middle), f"  └── {last}"]
    return "\n".join(["```text", "TurnRequest", "      │", "      ▼", *way, "      │", "      ▼", "TurnResult", "```"])


def _said(step: str, doc: str) -> list[str]:
    """A step's name, and beside it the first sentence about it."""
    first, *more = textwrap.wrap(re.split(r"\.\s|\.$", doc, maxsplit=1)[0], WIDEST)
    return [f"{step.replace('_', ' '):<15} {first}", *(f"{'':<15} {line}" for line in more)]


def recovery() -> str:
    """What follows from each kind of failure, from the table that the loop itself reads."""
    words = {step: doc for step, doc in attribute_docs(Step).items() if step}
    rows = []
    for reason, ways in RECOVERY.items():
        told = [words[step.name].rstrip(".").lower() for step in ways]
        last = "the next provider of the chain" + " that may have a larger window" * (Step.COMPRESS in ways)
        rows.append((f"`{reason}`", "; else ".join([*told, last])))
    return table(("reason", "what is tried, in this order"), rows)


def exits() -> str:
    """Every exit reason, what it means, and what it counts as."""
    words = attribute_docs(ExitReason)
    return table(("exit reason", "why", "counts as"), [(f"`{it}`", words[it.name], counts_as(it)) for it in ExitReason])


def counts_as(reason: ExitReason) -> str:
    """Which of the result's flags it sets."""
    if reason is ExitReason.COMPLETED:
        return "`completed`"
    return "`failed`" if reason.failed else "`interrupted`" if reason.interrupted else "none of the three"


def defaults() -> str:
    """The defaults of agents, their parts and their policies, from the signatures."""
    parts = (Agent, Agent.as_tool, Toolbox, Timeouts, CredentialPool)
    policies = (Retry, Compression, Grace, BudgetNotice, Refund, Ceiling, Delegation, RateGuard, Guardrails)
    rows = [
        (f"`{owner.__qualname__}`", f"`{name}`", code(short(repr(parameter.default))), argument_docs(owner)[name])
        for owner in (*parts, *policies)
        for name, parameter in inspect.signature(owner).parameters.items()
        if name in argument_docs(owner) and isinstance(parameter.default, bool | int | float | str | tuple | None)
    ]
    return table(("of", "argument", "default", "meaning"), rows)


def dependencies() -> str:
    """What is installed, and why: from the comments of the project file."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    reasons = dict(re.findall(r'^    "([\w-]+)[^"]*",\s+# (.+)$', text, re.MULTILINE))
    rows = [(f"`{line}`", "always", reasons.get(name_of(line), "")) for line in project["dependencies"]]
    extras = dict(re.findall(r"^([a-z]+) = \[.*\]\s+# (.+)$", text, re.MULTILINE)) | {"local": "the embedded model"}
    for extra, lines in project["optional-dependencies"].items():
        rows += [(code(line.split(";")[0]), code(f"[{extra}]"), extras.get(extra, "this site")) for line in lines]
    return table(("package", "installed", "for"), rows)


def frames() -> str:
    """The columns of every frame, from the table that the frames are made of."""
    return markdown()


def servers() -> str:
    """The model servers that are known by name."""
    rows = [
        (f"`{server.name}:MODEL`", server.base_url, code(server.variable), code(server.url_variable))
        for server in ENDPOINTS.values()
    ]
    return table(("model string", "address", "key from", "address from"), rows)


def commands() -> str:
    """The help texts of the command line."""
    verbs: tuple[list[str], ...] = ([], ["run"], ["traces"], ["lab"], ["model"], ["model", "fetch"])
    return "\n".join(f"```text\n$ hermes-nb {' '.join(verb)} --help\n{help_of(verb)}```\n" for verb in verbs)


def help_of(verb: list[str]) -> str:
    """What `hermes-nb VERB --help` prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        cli.main([*verb, "--help"])
    return said.getvalue()


def code(text: str) -> str:
    """Text as code; nothing stays nothing."""
    return f"`{text}`" if text else ""


def short(text: str) -> str:
    """Text that fits in a cell."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def name_of(requirement: str) -> str:
    """The distribution's name of a requirement."""
    return re.split(r"[^\w-]", requirement)[0]


def argument_docs(of: object) -> dict[str, str]:
    """What the `Args:` section of a docstring, or that of a dataclass's attributes, says of each argument."""
    section = re.split("^(?:Args|Attributes):\n", inspect.getdoc(of) or "", maxsplit=1, flags=re.MULTILINE)[-1]
    found = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", section.partition("\n\n")[0], re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text) for name, text in found}


def attribute_docs(of: type) -> dict[str, str]:
    """The texts that stand under the members of a class, by the member's name."""
    return dict(re.findall(r'^    (\w+) = .*\n    """(.+?)"""', inspect.getsource(of), re.MULTILINE))


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
