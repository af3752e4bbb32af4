"""Readers of traces: one module for each form in which they are found."""
