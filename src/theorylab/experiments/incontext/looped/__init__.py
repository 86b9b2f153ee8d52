"""Looped transformers: gradient descent in context, and the bound of its error."""
