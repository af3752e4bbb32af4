"""What the logbook costs a turn: microseconds per iteration, over a recorder without sinks.

    python benchmarks/logbook.py [DIRECTORY]

An iteration is what a turn tells of one tool round: eleven events, two of them messages. The best of many short rounds
is shown, because other work on the machine only ever adds to it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from hermes_nb.logbook import Logbook
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, ToolSpec, Usage

TOOLS = (ToolSpec("population", "Inhabitants of a city.", {"type": "object", "properties": {"city": {}}}),)
SYSTEM = Message("system", "You are a careful researcher.")
RESULT = "522000 inhabitants"


def iteration(recorder: Recorder, history: list[Message], number: int) -> None:
    """One tool round."""
    call = ToolCall(f"call_{number}", "population", '{"city": "Lyon"}')
    with recorder.scope(events.Iteration(number, False, 1000, 1000 - number)) as scope:
        recorder.tell(events.BudgetChanged("consume", -1, 1000, number, 1000 - number, number))
        chat = events.Chat("openai", "gpt", messages=(SYSTEM, *history), tools=TOOLS, server_address="127.0.0.1")
        with recorder.scope(chat):
            with recorder.scope(events.Attempt(1, 3, "openai", "gpt", server_address="127.0.0.1")) as attempt:
                attempt.outcome = "success"
            message = Message("assistant", "", (call,))
            chat.reply, chat.attempts = Reply(message, "tool_calls", Usage(1000, 20), "gpt", "r-1"), 1
        add(recorder, history, message)
        with recorder.scope(events.Tool("population", call.id, call.arguments)) as tool:
            tool.status, tool.result, tool.result_chars = "ok", RESULT, len(RESULT)
        add(recorder, history, Message("tool", RESULT, tool_call_id=call.id, name="population"))
        scope.outcome = "tool_calls"


def add(recorder: Recorder, history: list[Message], message: Message) -> None:
    """A message of the turn."""
    recorder.tell(events.MessageAdded(message, len(history)))
    history.append(message)


def best(sinks: tuple[events.Sink, ...], label: str, rounds: int = 40, length: int = 50) -> float:
    """Microseconds per iteration, the best of some turns."""
    found = []
    for number in range(rounds):
        recorder = Recorder(f"{label}-{number}", label, sinks)
        with recorder.scope(events.Turn("agent", "openai", "gpt", "How many?")) as turn:
            history: list[Message] = []
            add(recorder, history, Message("user", "How many?"))
            begun = time.perf_counter()
            for index in range(1, length + 1):
                iteration(recorder, history, index)
            found.append((time.perf_counter() - begun) / length * 1e6)
            turn.exit_reason = "completed"
    return min(found)


def main(directory: Path) -> None:
    """Measure and print."""
    with Logbook(directory / "benchmark.db") as logbook:
        bare = best((), "bare")
        kept = best((logbook.sink(),), "kept")
        iterations = 40 * 50
        size = logbook.path.stat().st_size / iterations
    print(f"recorder without sinks  {bare:7.1f} us per iteration")
    print(f"with the logbook        {kept:7.1f} us per iteration")
    print(f"the logbook's share     {kept - bare:7.1f} us per iteration, {size:,.0f} bytes in the file")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
