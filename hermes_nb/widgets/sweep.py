"""The panel of a sweep: how far it is, how its turns ended, what they cost; and the button that stops them all.

A study tells its progress as a plain dictionary of numbers; from it `Tally` makes everything that is shown, live, as
static HTML and as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import anywidget
import traitlets

from hermes_nb.widgets import assets, safe, words
from hermes_nb.widgets.commands import parse
from hermes_nb.widgets.gauges import Gauge
from hermes_nb.widgets.painter import painter
from hermes_nb.widgets.panel import let_clicks_pass, record
from hermes_nb.widgets.record import EMPTY, LINE, MUTED, TINTS, framed, gauge_row, pill, tag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ENOUGH = 3
"""Cases after which the time that is left can be guessed."""


class Studied(Protocol):
    """A sweep, as far as its panel knows it."""

    @property
    def done(self) -> bool:
        """Whether nothing runs any more."""

    @property
    def progress(self) -> dict[str, Any]:
        """How far it is: total, done, resumed, running, completed, tokens, cost_usd, seconds, exit_reasons, state."""

    def stop(self) -> None:
        """Interrupt all turns that run, and begin no more."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The progress of a sweep in numbers and words; what the dictionary does not have is 0."""

    total: int = 0
    landed: int = 0
    resumed: int = 0
    running: int = 0
    completed: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    ends: tuple[tuple[str, int], ...] = ()
    state: str = "running"

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> Tally:
        """The tally of a study's progress."""
        ends = progress.get("exit_reasons") or {}
        numbers = {name: progress.get(name) or 0 for name in ("total", "resumed", "running", "completed", "tokens")}
        return cls(
            **numbers,
            landed=progress.get("done") or 0,
            cost_usd=progress.get("cost_usd"),
            seconds=float(progress.get("seconds") or 0.0),
            ends=tuple((safe.line(str(name), 100), int(count)) for name, count in ends.items()),
            state=str(progress.get("state") or "running"),
        )

    @property
    def status(self) -> words.Status:
        """How it stands."""
        if self.state == "running":
            return words.Status("Running", "running")
        return words.Status("Stopped", "stopped") if self.state == "stopped" else words.Status("Done", "done")

    @property
    def phase(self) -> str:
        """What is going on, and how long it may still take."""
        if self.state != "running":
            return f"{self.landed:,} of {self.total:,} cases in {words.seconds(self.seconds)}"
        fresh = self.landed - self.resumed
        left = self.total - self.landed
        guess = f", about {words.duration(round(self.seconds * left / fresh))} left" if fresh >= _ENOUGH else ""
        return f"{words.some(self.running, 'turn')} running{guess}"

    def gauges(self) -> list[Gauge]:
        """The numbers that are large."""
        fraction = self.landed / self.total if self.total else None
        resumed = (f"{self.resumed:,} from before",) if self.resumed else ()
        failed = sum(count for name, count in self.ends if tone_of(name) == "failed")
        share = f"{self.completed / self.landed:.0%} of those done" if self.landed else ""
        shown = [
            Gauge("cases", "Cases", f"{self.landed:,}", f"of {self.total:,}", fraction, resumed, tight=None),
            Gauge("completed", "Completed", f"{self.completed:,}", "", None, (share,) if share else ()),
            Gauge("failed", "Failed", f"{failed:,}"),
            Gauge("tokens", "Tokens", words.count(self.tokens)),
        ]
        if self.cost_usd is not None:
            shown.append(Gauge("cost", "Cost so far", words.dollars(self.cost_usd)))
        return [*shown, Gauge("time", "Time", words.seconds(self.seconds))]


def tone_of(exit_reason: str) -> str:
    """How an end is meant: `done`, `stopped` or `failed`."""
    tone = words.tone_of(exit_reason)
    return tone if tone in ("done", "stopped") else "failed"


class SweepPanel(anywidget.AnyWidget):
    """Shows a sweep while it goes on, and lets the user stop it.

    Args:
        study: The sweep.
        frozen: Called once, when it is over; leaves the record in the panel's place, and returns it.
    """

    _esm = assets.script("sweep.js")
    _css = assets.style()
    head = traitlets.Dict().tag(sync=True)

    def __init__(self, study: Studied, frozen: Callable[[Tally], dict[str, Any]]) -> None:
        self._study = study
        self._frozen = frozen
        self._seen = self._over = False
        self._painting = Lock()
        self._record: dict[str, Any] = {}
        super().__init__(head=head(Tally.of(study.progress)))
        self.on_msg(self._on_message)
        let_clicks_pass(self.comm)

    def paint(self) -> bool:
        """Bring the browser up to date; returns False once the sweep is over and shown as such."""
        with self._painting:
            if self._over:
                return False
            self._over = self._study.done
            tally = Tally.of(self._study.progress)
            self.head = head(tally)
            if self._over:
                self._record = self._frozen(tally)
                if not self._seen:
                    self._esm = self._css = ""
                    self.close()
            return not self._over

    def stop(self) -> None:
        """Stop the sweep."""
        self._study.stop()

    def _on_message(self, _: object, message: object, __: object) -> None:
        command = parse(message)
        if command is None:
            return
        self._seen = True
        if command.kind == "interrupt":
            self.stop()
            painter.hurry()
        elif command.kind == "record" and self._over:
            self.send(record(self, self._record))
        elif command.kind == "gone" and self._over:
            self.close()


def head(tally: Tally) -> dict[str, Any]:
    """The tally as the browser is told of it."""
    status = tally.status
    over = tally.state != "running"
    return {
        "status": {"word": status.word, "tone": status.tone},
        "phase": tally.phase,
        "gauges": [gauge.as_dict() for gauge in tally.gauges()],
        "ends": [
            {"name": words.reason(name), "count": count, "tone": tone_of(name), "fraction": count / max(1, tally.total)}
            for name, count in tally.ends
        ],
        "total": tally.total,
        "landed": tally.landed,
        "cannot": "The sweep is over." if over else "",
        "done": over,
    }


def plain(tally: Tally) -> str:
    """The tally as text."""
    ends = ", ".join(f"{count:,} {words.reason(name)}" for name, count in tally.ends)
    numbers = ", ".join(f"{gauge.label.lower()} {gauge.value} {gauge.of}".strip() for gauge in tally.gauges())
    return f"Sweep {tally.status.word.lower()}: {tally.phase}\n{numbers}{chr(10) + ends if ends else ''}"


def html(tally: Tally) -> str:
    """The tally as static HTML, with literal styles only."""
    head = tag("div", "padding:9px 14px;", pill(tally.status), " &nbsp; ", safe.escape(tally.phase))
    pieces = []
    for name, count in tally.ends:
        style = f"float:left;height:12px;width:{100 * count / max(1, tally.total):.2f}%;"
        title = f' title="{safe.escape(words.reason(name))}"'
        pieces.append(tag("div", f"{style}background:{_TINTS[tone_of(name)]};", attributes=title))
    bar = tag("div", f"height:12px;overflow:hidden;border-radius:3px;{EMPTY}", *pieces)
    ends = ", ".join(f"{count:,} {safe.escape(words.reason(name))}" for name, count in tally.ends)
    below = tag("div", "padding:10px 14px;", bar, tag("div", f"{MUTED}font-size:12px;margin-top:6px;", ends))
    return framed("overflow:hidden;", head, tag("div", f"border-top:{LINE};", gauge_row(tally.gauges())), below)


_TINTS = {"done": TINTS["tools"], "stopped": TINTS["waits"], "failed": TINTS["failed"]}
