"""Parity in context: how many heads it takes, and how much noise they see."""
