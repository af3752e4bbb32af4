"""The program of the embedded model's own process: serve one GGUF file on loopback until the parent goes.

It is started as a file, with the standard library and the engine only: settings come as one line of JSON on standard
input, `{"url": ...}` or `{"error": ...}` goes back on standard output, and the end of standard input ends it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any


def serve() -> None:
    """Start the engine, say where it listens, and wait for the end of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt of the notebook's kernel is not for us
    settings = json.loads(sys.stdin.buffer.readline())
    answers = os.dup(1)
    os.dup2(2, 1)  # what the engine prints must not get into the answer
    if sys.platform != "win32":
        threading.Thread(target=_leave_with, args=(settings["parent"],), daemon=True).start()
    try:
        server = _engine(settings)
    except BaseException as error:  # noqa: BLE001  whatever it is, the parent shall hear it
        _say(answers, error=f"{type(error).__name__}: {error}")
        os._exit(1)
    _say(answers, url=server.listening_address)
    os.close(answers)
    sys.stdin.buffer.read()
    os._exit(0)


def _engine(settings: dict[str, Any]) -> Any:
    import xllamacpp  # noqa: PLC0415  its failure is an answer, too

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["model"]}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [settings["key"]]
    params.n_ctx, params.n_parallel = settings["context_window"], 1
    params.n_batch = params.n_ubatch = 256  # a dropped request is noticed between batches
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = 0  # else up to 8 GB of old prompts in memory
    params.sse_ping_interval = 1  # else an open stream delays the end by up to 30 s
    params.ui, params.endpoint_slots, params.cors_origins = False, False, ""
    params.verbosity = 1  # errors only: the parent quotes them when the start fails
    if settings["chat_template"]:
        params.chat_template = settings["chat_template"]
    return xllamacpp.Server(params)


def _say(answers: int, **answer: str) -> None:
    os.write(answers, json.dumps(answer).encode() + b"\n")


def _leave_with(parent: int) -> None:
    """A second line of defence: a forked sibling may still hold the pipe when the parent is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    serve()
