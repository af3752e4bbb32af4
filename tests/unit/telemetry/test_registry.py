"""The contract itself: its form, its references, and that nothing in the code says otherwise."""

from __future__ import annotations

import itertools
import typing

import jsonschema
import pytest
import yaml

from hermes_nb.telemetry import semconv as constants
from hermes_nb.telemetry.rows import ROWS
from hermes_nb.turn.result import ExitReason
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import FailureReason
from tools import semconv

LEVEL = {
    "anyOf": [
        {"enum": ["required", "recommended", "opt_in"]},
        {"type": "object", "required": ["conditionally_required"], "additionalProperties": False,
         "properties": {"conditionally_required": {"type": "string"}}},
    ]
}  # fmt: skip
REFS = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "object", "required": ["ref", "requirement_level"], "additionalProperties": False,
             "properties": {"ref": {"type": "string"}, "requirement_level": LEVEL}},
            {"type": "object", "required": ["ref_group"], "additionalProperties": False,
             "properties": {"ref_group": {"type": "string"}}},
        ]
    },
}  # fmt: skip
TEXT = {"type": "string"}
STABILITY = {"enum": ["stable", "development", "alpha", "beta", "release_candidate"]}
KINDS = ["string", "int", "double", "boolean", "any", "string[]", "int[]", "template[any]"]
MEMBER = {
    "type": "object",
    "required": ["id", "value", "stability"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "value": {"type": "string"},
        "stability": STABILITY,
        "brief": {"type": "string"},
    },
}


MEMBERS = {"required": ["members"], "properties": {"members": {"type": "array", "items": MEMBER}}}
INSTRUMENTS = ["counter", "gauge", "histogram", "updowncounter"]


def _object(required: str, **properties: object) -> dict[str, object]:
    given = {name: {"type": "string"} for name in required.split()}
    return {
        "type": "object",
        "required": required.split(),
        "additionalProperties": False,
        "properties": given | properties,
    }


WEAVER = {
    "type": "object",
    "required": ["file_format"],
    "additionalProperties": False,
    "properties": {
        "file_format": {"const": "definition/2"},
        "attributes": {
            "items": _object(
                "key type brief stability", examples={"type": "array"}, note={"type": "string"}, stability=STABILITY,
                annotations={"type": "object"}, deprecated=_object("reason renamed_to"),
                type={"anyOf": [{"enum": KINDS}, MEMBERS]},
            )
        },
        "attribute_groups": {"items": _object("id visibility", visibility={"const": "internal"}, attributes=REFS)},
        "spans": {
            "items": _object(
                "type kind name brief stability", name=_object("note"), kind={"enum": ["internal", "client"]},
                attributes=REFS, note={"type": "string"}, stability=STABILITY,
            )
        },
        "events": {"items": _object("name brief stability", attributes=REFS, stability=STABILITY)},
        "metrics": {
            "items": _object(
                "name instrument unit brief stability", instrument={"enum": INSTRUMENTS},
                attributes=REFS, annotations={"type": "object"}, stability=STABILITY,
            )
        },
    },
}  # fmt: skip
"""The part of weaver's schema of `definition/2` that the registry uses."""

FILES = sorted(path for path in semconv.REGISTRY.glob("*.yaml") if path.name != "manifest.yaml")
EXAMPLES = {"string": str, "int": int, "double": float, "any": str}

VALUES = {
    "hermes.iteration.outcome": (events.Iteration, "outcome"),
    "hermes.chat.purpose": (events.Chat, "purpose"),
    "hermes.attempt.outcome": (events.Attempt, "outcome"),
    "hermes.retry.source": (events.Retry, "source"),
    "hermes.retry.outcome": (events.Retry, "outcome"),
    "hermes.fallback.outcome": (events.Fallback, "outcome"),
    "hermes.compression.trigger": (events.Compression, "trigger"),
    "hermes.compression.outcome": (events.Compression, "outcome"),
    "hermes.refund.reason": (events.Refund, "reason"),
    "hermes.tool.status": (events.Tool, "status"),
    "gen_ai.tool.type": (events.Tool, "type"),
    "hermes.budget.actor": (events.BudgetChanged, "actor"),
    "hermes.interrupt.during": (events.Interrupt, "during"),
    "hermes.degraded.part": (events.Degraded, "part"),
}


def members(key: str) -> set[str]:
    attribute = next(a for a in semconv.load("attributes") if a["key"] == key)
    return {member["value"] for member in attribute["type"]["members"]}


def literal(kind: type, field: str) -> set[str]:
    annotation = eval(kind.__annotations__[field], vars(events))
    return set(typing.get_args(annotation)) - {""}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_has_weavers_form(path):
    jsonschema.validate(yaml.safe_load(path.read_text()), WEAVER)


def test_the_manifest_names_the_registry_and_its_version():
    manifest = yaml.safe_load((semconv.REGISTRY / "manifest.yaml").read_text())

    assert manifest["schema_url"].rpartition("/")[2].count(".") == 2


def test_each_name_is_declared_once():
    for section, key in (("attributes", "key"), ("spans", "type"), ("events", "name"), ("metrics", "name")):
        names = [item[key] for item in semconv.load(section)]
        assert len(names) == len(set(names)), section


def test_each_reference_leads_somewhere_and_each_attribute_is_used():
    declared = {a["key"] for a in semconv.load("attributes")}
    used = set()
    for item in itertools.chain(semconv.load("spans"), semconv.load("events"), semconv.load("metrics")):
        used |= set(semconv.resolved(item))

    on_links_and_resources = {
        "hermes.link.type", "hermes.run.id", "hermes.semconv.genai", "service.name", "service.version",
        "openinference.project.name",
    }  # fmt: skip
    assert used - declared == set()
    assert declared - used == on_links_and_resources


def test_examples_have_the_declared_type():
    for attribute in semconv.load("attributes"):
        wanted = EXAMPLES.get(attribute["type"]) if isinstance(attribute["type"], str) else None
        for example in attribute.get("examples", ()):
            assert wanted is None or type(example) is wanted, attribute["key"]


def test_texts_need_an_example_as_weaver_demands():
    for attribute in semconv.load("attributes"):
        assert attribute["type"] not in ("string", "string[]") or attribute["examples"], attribute["key"]


def test_constants_and_reference_are_what_the_generator_writes():
    assert semconv.main(["--check"]) == 0


def test_a_stale_file_is_found(tmp_path, monkeypatch, capsys):
    stale = tmp_path / "semconv.py"
    stale.write_text("old")
    monkeypatch.setattr(semconv, "CONSTANTS", stale)
    monkeypatch.setattr(semconv, "ROOT", tmp_path)
    monkeypatch.setattr(semconv, "_formatted", lambda source: source)

    monkeypatch.setattr(semconv, "REFERENCE", tmp_path / "reference.md")
    semconv.REFERENCE.write_text("no marks: nothing to generate")

    assert semconv.main(["--check"]) == 1
    assert "differs: semconv.py" in capsys.readouterr().out
    assert stale.read_text() == "old"
    assert semconv.main([]) == 0
    assert semconv.main(["--check"]) == 0


@pytest.mark.parametrize("key", VALUES)
def test_the_declared_values_are_those_of_the_events(key):
    assert members(key) == literal(*VALUES[key])


def test_exit_and_failure_reasons_are_those_of_the_code():
    assert members("hermes.turn.exit_reason") == {reason.value for reason in ExitReason}
    assert members("hermes.attempt.reason") == {reason.value for reason in FailureReason}
    assert members("hermes.retry.reason") == {reason.value for reason in FailureReason}


def test_each_kind_of_scope_has_a_span_and_a_row():
    kinds = {kind.kind for kind in ROWS}

    assert {span["type"].removeprefix("hermes.") for span in semconv.load("spans")} == kinds
    assert members("hermes.span.type") == kinds
    assert kinds == {kind.kind for kind in typing.get_args(events.Scoped)}


def test_the_genai_names_say_which_release_they_come_from():
    assert constants.GENAI_RELEASE == "0.1.0"


def test_histograms_have_their_boundaries():
    for name, instrument in constants.METRICS.items():
        assert (instrument.kind == "histogram") == bool(instrument.boundaries), name
        assert list(instrument.boundaries) == sorted(instrument.boundaries)
