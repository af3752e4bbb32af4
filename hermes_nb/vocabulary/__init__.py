"""The nouns that every room shares; imports nothing of ours and nothing but the standard library."""
