"""Policies: small frozen objects with one synchronous, pure method each; they decide, the loop acts."""
