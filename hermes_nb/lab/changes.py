"""What has changed since a study was begun: the agents, seen by their fingerprints."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal, TypeAlias

from hermes_nb.lab.fingerprint import described, differences
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.lab.cases import Case
    from hermes_nb.lab.casework import Row
    from hermes_nb.lab.fingerprint import Settings
    from hermes_nb.lab.journal import Journal
    from hermes_nb.lab.scoring import Scorer

IfChanged: TypeAlias = Literal["refuse", "keep", "rerun"]

LISTED = 8
"""Differences that a message lists."""


def current(journal: Journal, cases: Mapping[str, Case], score: Scorer | None, if_changed: IfChanged) -> dict[str, Row]:
    """The rows of the finished cases of a study; what its agents are now is kept for the next time.

    Args:
        journal: The rows on disk.
        cases: All cases, with the agents of today.
        score: For turns of which the rows are lost.
        if_changed: What to do with cases that another agent has finished: say so, count them, or run them again.

    Raises:
        ConfigurationError: An agent has changed, and `if_changed` is `refuse`.
    """
    finished, known = journal.finished(cases, score), journal.agents()
    today = {case.fingerprint: described(case.agent) for case in {c.fingerprint: c for c in cases.values()}.values()}
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case_id, row in finished.items():
        pairs[row.get("fingerprint") or "", cases[case_id].fingerprint].append(case_id)
    told = {pair: _told(pair, known, today) for pair in pairs}
    changed = {pair: ids for pair, ids in pairs.items() if told[pair]}
    if changed and if_changed == "refuse":
        number, lines = sum(map(len, changed.values())), dict.fromkeys(line for pair in changed for line in told[pair])
        msg = (
            f"{number:,} of the {len(finished):,} finished cases of {journal.path} were run by another agent: "
            f"{'; '.join(lines)}. Give if_changed='keep' to count them and run the others with the agent as it is now, "
            "if_changed='rerun' to run them again, or another path="
        )
        raise ConfigurationError(msg)
    journal.add_agents({name: settings for name, settings in today.items() if name not in known})
    again = {case_id for ids in changed.values() for case_id in ids if if_changed == "rerun"}
    return {case_id: row for case_id, row in finished.items() if case_id not in again}


def _told(pair: tuple[str, str], known: Mapping[str, Settings], today: Mapping[str, Settings]) -> list[str]:
    """What differs between two agents, in words; nothing where they are the same, or the first has no fingerprint."""
    old, new = pair
    if not old or old == new:
        return []
    if old not in known:
        return ["what it was is not known any more"]
    lines = differences(known[old], today[new])
    more = len(lines) - LISTED
    return [*lines[:LISTED], f"and {more} more"] if more > 0 else lines
