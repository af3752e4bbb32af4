"""Model providers: one protocol, and an adapter for each kind of server."""
