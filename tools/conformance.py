"""Writes the conformance page of the documentation from the table of rows and from the tests named after them.

python tools/conformance.py            writes docs/conformance.md
python tools/conformance.py --check    says whether it is up to date
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.conformance.rows import CASES, LOOP, PARTS, Row  # noqa: E402  the path comes first

PAGE = ROOT / "docs" / "conformance.md"
NAMED = re.compile(r"test_((?:loop|parts|case)_[ab]?\d\db?)_")
HEAD = """---
hide: [toc]
---

# Conformance

What hermes-agent 0.19.0 does, and what hermes_nb does. **same**: the same behaviour. **better**: the original has a
defect there, or only intends the behaviour. Each row is held by the tests named in its last column, in
`tests/conformance/`; they drive real turns against a scripted model server over HTTP.
"""


def tests_by_row() -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The tests of each row, in the order of the files."""
    found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
    for path in sorted((ROOT / "tests" / "conformance").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (match := NAMED.match(node.name)):
                found.setdefault(match[1], []).append(node)
    return found


def table(rows: list[Row]) -> list[str]:
    """The rows as a Markdown table."""
    known = tests_by_row()
    lines = ["| # | mechanism | the original | ours | | test |", "|---|---|---|---|---|---|"]
    for row in rows:
        tests = known.get(row.id, [])
        said = " ".join((ast.get_docstring(test) or "").partition("\n")[0] for test in tests).strip()
        names = "<br>".join(f"`{test.name}`" for test in tests)
        number = row.id.split("_")[1].upper()
        lines.append(f"| {number} | {row.mechanism} | {row.original} | {said} | {row.ours} | {names} |")
    return lines


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, rows in (("The loop", LOOP), ("Around the loop", PARTS), ("Failures that people reported", CASES)):
        parts += [f"## {title}", "", *table(rows), ""]
    return "\n".join(parts)


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        same = PAGE.exists() and PAGE.read_text() == page()
        print("up to date" if same else "docs/conformance.md is out of date; run python tools/conformance.py")
        return 0 if same else 1
    PAGE.write_text(page())
    print(f"wrote: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
