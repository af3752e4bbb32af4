"""Run a notebook in a real kernel and show, as text, what its cells tagged `show` put out.

The notebook itself is not touched: the executed copy goes into `build/`. Nothing is computed here; what is printed is
the text that the kernel sent.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parent.parent
TIMEOUT = 600  # seconds for one cell; the embedded model on a slow machine needs some


def main(name: str) -> int:
    """Run the notebook, print what it shows, say how to open it."""
    path = Path(name)
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types
    print(f"Running {path} in a Jupyter kernel", flush=True)
    started = time.monotonic()
    client = NotebookClient(notebook, timeout=TIMEOUT, resources={"metadata": {"path": str(path.parent)}})
    client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]
    try:
        client.execute()
    except CellExecutionError as error:
        print(f"A cell failed:\n{error}")
        return 1
    seconds = time.monotonic() - started
    copy = ROOT / "build" / path.name
    copy.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, copy)  # type: ignore[no-untyped-call]
    for title, text in shown(notebook):
        print(f"\n── {title} {'─' * max(0, 96 - len(title))}\n{text}")
    print(f"\nThe notebook ran in {seconds:.1f} s; the executed copy is {copy.relative_to(ROOT)}.")
    print(f"Open {path.name} and watch the turn live:  make lab")
    return 0


def shown(notebook: Any) -> list[tuple[str, str]]:
    """Title and text of each tagged cell: the heading above it, and what it put out."""
    out, title = [], ""
    for cell in notebook.cells:
        headings = [line.lstrip("# ") for line in cell.source.splitlines() if line.startswith("#")]
        if cell.cell_type == "markdown" and headings:
            title = headings[-1]
        elif "show" in cell.metadata.get("tags", ()):
            out.append((title, "\n".join(map(text_of, cell.outputs)).rstrip()))
    return out


def text_of(output: Any) -> str:
    """The plain text of one output."""
    if output.output_type == "stream":
        return str(output.text).rstrip("\n")
    return str(output.get("data", {}).get("text/plain", ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
