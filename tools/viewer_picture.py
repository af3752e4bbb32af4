"""Makes the picture of a turn in Phoenix that the documentation shows: a real server, a real browser.

python tools/viewer_picture.py [FILE]
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import ViewportSize, sync_playwright  # noqa: E402

import hermes_nb as hn  # noqa: E402
from hermes_nb.testing import call, fails, no_waiting, say, script  # noqa: E402
from tests.support.foreign import free_port, python, server  # noqa: E402

SIZE: ViewportSize = {"width": 1440, "height": 900}


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


def turn(url: str) -> hn.TurnResult:
    """A turn with a retry, a fallback, tools and a sub-agent, sent to a server."""
    usage = hn.Usage(412, 38)
    searcher = hn.Agent(script(say("Lille has 236,000 inhabitants.", usage=usage), model="small"), name="searcher")
    first = script(fails("server_error"), fails("auth"), name="a", model="big")
    steps = call("population", city="Lyon"), call("searcher", task="Find Lille."), say("Lyon, by 286,000.", usage=usage)
    second = script(*steps, name="b", model="other")
    agent = hn.Agent([first, second], tools=[population, searcher.as_tool()], name="geo", budget=8)
    with hn.capture(otlp=url, content="full") as sent, no_waiting():
        result = agent.run("Which is larger, Lyon or Lille, and by how much?", session=False)
        sent.flush(60)
    return result


def project(url: str) -> str:
    """The id of the project in Phoenix."""
    with urllib.request.urlopen(f"{url}/v1/projects") as answer:  # noqa: S310  our own server on loopback
        projects: list[dict[str, Any]] = json.load(answer)["data"]
    return next(str(found["id"]) for found in projects if found["name"] == "hermes_nb")


def main() -> None:
    """Start Phoenix, send a turn, take the picture."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "phoenix.png"
    interpreter, port = python("phoenix", "arize-phoenix==20.26.1"), free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        environment = {
            "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(free_port()), "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_WORKING_DIR": home, "PHOENIX_TELEMETRY_ENABLED": "false",
        }  # fmt: skip
        command = [interpreter, "-m", "phoenix.server.main", "serve"]
        with server(command, f"{url}/healthz", Path(home) / "log", **environment):
            trace = f"{turn(url).trace.spans_df()['trace_id'].iloc[0]}"
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.goto(f"{url}/projects/{project(url)}/traces/{trace}")
            page.get_by_text("invoke_agent geo").first.wait_for(timeout=120_000)
            page.wait_for_timeout(5_000)
            page.screenshot(path=file)
            browser.close()
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
