"""Runs the same scripts through hermes-agent 0.19.0 and through us, and prints where the two differ.

    python tools/differential.py

The original is installed from the package index into an environment of its own, in the user cache. Both talk to the
scripted server of the tests; only rows that are marked "same" in the conformance table are compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import hermes_nb as hn  # noqa: E402  the path comes first
from tests.conformance.support import population  # noqa: E402
from tests.support.server import Received, Server, always, call, calls, say, status, whole  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "hermes-agent==0.19.0"
LYON = call("population", city="Lyon")
SCRIPTS: dict[str, tuple[int, list[Any]]] = {
    "loop_01": (90, [say("522,000")]),
    "loop_05": (3, [LYON, LYON, LYON, say("so far: 522,000 people live there.")]),
    "loop_08": (2, [LYON, say("522,000 people live in Lyon.")]),
    "loop_15": (90, [status(503), status(503), say("522,000")]),
    "loop_16": (90, [status(503)]),
    "loop_19": (90, [status(400, {"error": {"message": "Invalid schema for function 'x'"}})]),
    "loop_38": (90, [say("Hel", finish="length"), say("lo wor", finish="length"), say("ld")]),
    "loop_42": (90, [calls(LYON, call("no_such_tool")), say("ok, that is all.")]),
    "loop_60": (90, [LYON, say("522,000 people live in Lyon.")]),
}
"""For each row the budget and the steps of the server."""


def interpreter() -> Path:
    """The Python of the original's environment, made if need be."""
    home = platformdirs.user_cache_path("hermes_nb", appauthor=False) / "differential"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        print(f"installing {PACKAGE} into {home}")
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], check=True)
        (home / "ready").touch()
    return python


def original(python: Path, url: str, budget: int) -> dict[str, Any]:
    """One turn of the original."""
    program = [str(python), str(ROOT / "tools" / "differential_child.py"), url, str(budget)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=180, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"final_response": (done.stderr or done.stdout)[-200:]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def ours(url: str, budget: int) -> dict[str, Any]:
    """One turn of ours."""
    provider = hn.OpenAIChat("m", base_url=url, api_key="sk-differential-01")
    return hn.Agent(provider, tools=[population], budget=budget).run_conversation("How many people live in Lyon?")


def answering(steps: list[Any]) -> Callable[[Received], Any]:
    """The steps for chats, one after the other, the last one for ever; the original also asks for models."""
    left = list(steps)

    def step(request: Received) -> Any:
        if not request.path.endswith("/chat/completions"):
            return whole({"object": "list", "data": []})
        return left.pop(0) if len(left) > 1 else left[0]

    return step


def differences(row: str, python: Path) -> list[str]:
    """What differs in one row: requests, flags, and the text of an answer."""
    budget, steps = SCRIPTS[row]
    seen = []
    for theirs_turn in (True, False):
        with Server(always(answering(steps))) as server:
            answer = original(python, server.url, budget) if theirs_turn else ours(server.url, budget)
            chats = [request for request in server.requests if request.path.endswith("/chat/completions")]
            seen.append({"requests": len(chats), **answer})
    theirs, own = seen
    keys = ["requests", "completed", "failed"] + (["final_response"] if theirs.get("completed") else [])
    return [
        f"{key}: {theirs.get(key)!r} there, {own.get(key)!r} here" for key in keys if theirs.get(key) != own.get(key)
    ]


def main() -> int:
    """Compare row by row."""
    python = interpreter()
    found = 0
    for row in SCRIPTS:
        different = differences(row, python)
        found += bool(different)
        print(f"{row}: {'; '.join(different) or 'the same'}", flush=True)
    print(f"{len(SCRIPTS) - found} rows the same, {found} differ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
