"""Replay, fork, sweep, compare, break."""
