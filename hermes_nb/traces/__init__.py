"""From spans and events to pandas frames, files and pictures."""
