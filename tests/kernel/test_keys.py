"""Keys stay out of a notebook: whatever a kernel sends to the front end, the panel's messages included."""

from __future__ import annotations

import textwrap

import pytest
from jupyter_client.manager import start_new_kernel

KEY = "sk-canary-8f3b1c5d7e9a2b4c6d8e"
CELLS = (
    """
    import os
    import hermes_nb as hn
    from hermes_nb.testing import call, fails, no_waiting, say, script
    key = os.environ["CANARY_API_KEY"]

    @hn.tool
    def leak(way: str) -> str:
        "Says a key, or fails with it."
        if way == "raise":
            raise RuntimeError(key)
        return f"the key is {key}"

    steps = [call("leak", way="say"), call("leak", way="raise"), say("Done.")]
    chain = [hn.OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key=key), script(*steps)]
    agent = hn.Agent(chain, tools=[leak], retry=hn.Retry(attempts=1))
    """,
    "run = agent.start(f'Use {key}.', session=False)\nrun",
    "run.result()",
    "run.trace",
    "display(run.trace.messages_df(), run.trace.spans_df(content=True), run.trace.tool_calls_df())",
    "agent.models[0]",
    "hn.Agent(hn.OpenAIChat('m', base_url='http://127.0.0.1:9/v1', api_key=key), tools=[3])",
)


@pytest.mark.kernel
def test_no_cell_shows_a_key(monkeypatch):
    monkeypatch.setenv("CANARY_API_KEY", KEY)
    manager, client = start_new_kernel(kernel_name="python3")
    told: list[dict] = []
    try:
        for cell in CELLS:
            client.execute_interactive(textwrap.dedent(cell), timeout=60, output_hook=told.append)
        while client.iopub_channel.msg_ready():
            told.append(client.get_iopub_msg(timeout=5))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)

    kinds = {message["msg_type"] for message in told}
    shown = [message for message in told if message["msg_type"] not in ("execute_input", "status")]
    assert {"comm_open", "execute_result", "display_data", "error"} <= kinds
    assert any("leak" in str(message["content"]) for message in shown)
    assert not [message["content"] for message in shown if KEY in str(message["content"]) + str(message.get("buffers"))]
