"""Run, watch, steer and dissect LLM-agent turns in Jupyter."""
