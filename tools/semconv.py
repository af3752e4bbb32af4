"""Write what follows from the registry in `telemetry/registry/`: the constants module and the reference tables.

python tools/semconv.py            write both
python tools/semconv.py --check    say what differs, and fail if anything does
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = ROOT / "telemetry" / "registry"
CONSTANTS = ROOT / "hermes_nb" / "telemetry" / "semconv.py"
REFERENCE = ROOT / "docs" / "reference" / "telemetry.md"

Attribute = dict[str, Any]


@cache
def _files() -> list[dict[str, Any]]:
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(REGISTRY.glob("*.yaml"))]


def load(section: str) -> list[dict[str, Any]]:
    """One section (`attributes`, `spans`, `events`, `metrics`, ...) of all files of the registry, in file order."""
    return [item for content in _files() for item in content.get(section, ())]


def annotation(item: dict[str, Any], name: str) -> Any:
    """What `annotations.hermes` says under a name; None if nothing."""
    return item.get("annotations", {}).get("hermes", {}).get(name)


def resolved(item: dict[str, Any]) -> dict[str, Any]:
    """The requirement level of each attribute of a span, event or metric by its name, groups followed."""
    groups = {group["id"]: group for group in load("attribute_groups")}
    out: dict[str, Any] = {}
    for ref in item.get("attributes", ()):
        out |= resolved(groups[ref["ref_group"]]) if "ref_group" in ref else {ref["ref"]: ref["requirement_level"]}
    return out


def constant(name: str) -> str:
    """The constant's name: `hermes.turn.id` is `HERMES_TURN_ID`."""
    return name.upper().replace(".", "_")


def _names(title: str, items: list[dict[str, Any]], key: str, prefix: str = "") -> list[str]:
    lines = [f"# {title}", ""]
    for item in sorted(items, key=lambda item: str(item[key])):
        lines += [f'{prefix}{constant(item[key])}: Final = "{item[key]}"']
    return [*lines, ""]


def _key_set(name: str, doc: str, attributes: list[Attribute], mark: str) -> list[str]:
    marked = sorted(constant(a["key"]) for a in attributes if annotation(a, mark))
    return [f"{name}: Final = frozenset({{{', '.join(marked)}}})", f'"""{doc}"""', ""]


_INSTRUMENT = '''class Instrument(NamedTuple):
    """A metric's instrument; `release` names the older conventions that alone have it."""

    kind: str
    unit: str
    description: str
    boundaries: tuple[float, ...] = ()
    release: str = ""
'''


def _instruments(metrics: list[dict[str, Any]]) -> list[str]:
    lines = [_INSTRUMENT, "METRICS: Final[dict[str, Instrument]] = {"]
    for metric in metrics:
        fields = {
            "kind": metric["instrument"],
            "unit": metric["unit"],
            "description": metric["brief"],
            "boundaries": tuple(annotation(metric, "boundaries") or ()),
            "release": annotation(metric, "release") or "",
        }
        given = ", ".join(f"{name}={value!r}" for name, value in fields.items() if value)
        lines.append(f"    METRIC_{constant(metric['name'])}: Instrument({given}),")
    return [*lines, "}", ""]


def constants() -> str:
    """The text of the constants module."""
    attributes = load("attributes")
    lines = ['"""Names of attributes, events and metrics; generated from the registry, do not edit."""', ""]
    lines += ["# ruff: noqa: S105  names that speak of tokens are no passwords", ""]
    lines += ["from __future__ import annotations", "", "from typing import Final, NamedTuple", ""]
    lines += [f'GENAI_RELEASE: Final = "{_genai_release()}"', ""]
    lines += _names("attributes", attributes, "key")
    names = ", ".join(sorted(constant(a["key"]) for a in attributes))
    lines += [f"DECLARED: Final = frozenset({{{names}}})", '"""All of them; templates under their own name."""', ""]
    lines += _key_set("CONTENT", "Written only when content is captured.", attributes, "content")
    lines += _key_set("FREE_TEXT", "Searched for keys before it is written.", attributes, "free_text")
    lines += _key_set("VIEWER", "Written for viewers; left out with `openinference=False`.", attributes, "viewer")
    lines += _names("events", load("events"), "name", "EVENT_")
    lines += _names("metrics", load("metrics"), "name", "METRIC_")
    lines += _instruments(load("metrics"))
    return _formatted("\n".join(lines))


def _genai_release() -> str:
    """The release that the GenAI names are pinned to, from the head of their file."""
    head = (REGISTRY / "genai.yaml").read_text(encoding="utf-8")
    return head.split("release v", 1)[1].split(" ", 1)[0]


def _formatted(source: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(CONSTANTS), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


# ---------------------------------------------------------------------------------------------- reference


def reference(text: str) -> str:
    """The text of the reference, with what stands between its marks written anew."""
    made = {"spans": _spans, "events": _events, "metrics": _metrics, "attributes": _attributes}
    for name, table in made.items():
        start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n\n{table()}\n\n{end}{rest.partition(end)[2]}"
    return text


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _level(level: Any) -> str:
    return f"required {level['conditionally_required']}" if isinstance(level, dict) else level.replace("_", "-")


def _spans() -> str:
    parts = []
    for span in load("spans"):
        levels = resolved(span)
        rows = [[f"`{key}`", _level(level)] for key, level in levels.items()]
        note = f" {span['note']}" if "note" in span else ""
        head = f"### {span['type'].removeprefix('hermes.')}\n\n{span['name']['note']}, {span['kind'].upper()}. "
        parts.append(f"{head}{span['brief']}{note}\n\n{_table(['attribute', ''], rows)}")
    return "\n\n".join(parts)


def _events() -> str:
    rows = [[f"`{e['name']}`", e["brief"], ", ".join(f"`{key}`" for key in resolved(e))] for e in load("events")]
    return _table(["event", "", "attributes"], rows)


def _metrics() -> str:
    rows = [
        [f"`{m['name']}`", m["instrument"], m["unit"], m["brief"], ", ".join(f"`{key}`" for key in resolved(m))]
        for m in load("metrics")
    ]
    return _table(["metric", "", "unit", "", "attributes"], rows)


def _attributes() -> str:
    rows = [
        [f"`{a['key']}`", _type(a), a["brief"] + _examples(a)]
        for a in sorted(load("attributes"), key=lambda a: str(a["key"]))
    ]
    return _table(["attribute", "type", ""], rows)


def _type(attribute: Attribute) -> str:
    kind = attribute["type"]
    return ", ".join(f"`{m['value']}`" for m in kind["members"]) if isinstance(kind, dict) else str(kind)


def _examples(attribute: Attribute) -> str:
    given = attribute.get("examples", [])
    return " Example: " + ", ".join(f"`{item}`" for item in given) if given else ""


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or check them; 1 if a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    check = parser.parse_args(arguments).check
    wanted = {CONSTANTS: constants(), REFERENCE: reference(REFERENCE.read_text(encoding="utf-8"))}
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'differs' if check else 'wrote'}: {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
