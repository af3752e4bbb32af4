"""What outlives a kernel: the logbook of turns, and the rate guard's memory."""
