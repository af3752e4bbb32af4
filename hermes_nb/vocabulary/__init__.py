"""The nouns that every room shares; imports nothing of ours, and of others only anyio and platformdirs."""
