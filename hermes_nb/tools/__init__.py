"""Tools: from a function to a schema, and from a model's call to a result."""
