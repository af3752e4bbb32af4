"""The panel in a notebook."""
