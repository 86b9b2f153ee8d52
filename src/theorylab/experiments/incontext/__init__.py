"""Experiments about learning in context: what attention makes of the examples in its prompt."""
