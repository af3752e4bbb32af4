"""Write what follows from the registry in `telemetry/registry/`: the constants module and the reference tables.

python tools/semconv.py            write both
python tools/semconv.py --check    say what differs, and fail if anything does
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = ROOT / "telemetry" / "registry"
CONSTANTS = ROOT / "hermes_nb" / "telemetry" / "semconv.py"

Attribute = dict[str, Any]


def load(section: str, registry: Path = REGISTRY) -> list[dict[str, Any]]:
    """One section (`attributes`, `spans`, `events`, `metrics`, ...) of all files of the registry, in file order."""
    files = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(registry.glob("*.yaml")))
    return [item for content in files for item in content.get(section, ())]


def annotation(item: dict[str, Any], name: str) -> Any:
    """What `annotations.hermes` says under a name; None if nothing."""
    return item.get("annotations", {}).get("hermes", {}).get(name)


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


def constants() -> str:
    """The text of the constants module."""
    attributes = load("attributes")
    lines = ['"""Names of attributes, events and metrics; generated from the registry, do not edit."""', ""]
    lines += ["# ruff: noqa: S105  names that speak of tokens are no passwords", ""]
    lines += ["from __future__ import annotations", "", "from typing import Final", ""]
    lines += [f'GENAI_RELEASE: Final = "{_genai_release()}"', ""]
    lines += _names("attributes", attributes, "key")
    lines += _key_set("CONTENT", "Written only when content is captured.", attributes, "content")
    lines += _key_set("FREE_TEXT", "Searched for keys before it is written.", attributes, "free_text")
    lines += _key_set("VIEWER", "Written for viewers; left out with `openinference=False`.", attributes, "viewer")
    lines += _names("events", load("events"), "name", "EVENT_")
    lines += _names("metrics", load("metrics"), "name", "METRIC_")
    return _formatted("\n".join(lines))


def _genai_release() -> str:
    """The release that the GenAI names are pinned to, from the head of their file."""
    head = (REGISTRY / "genai.yaml").read_text(encoding="utf-8")
    return head.split("release v", 1)[1].split(" ", 1)[0]


def _formatted(source: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(CONSTANTS), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or check them; 1 if a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    check = parser.parse_args(arguments).check
    wanted = {CONSTANTS: constants()}
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'differs' if check else 'wrote'}: {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
