"""One turn: request, state, steps, loop, result."""
