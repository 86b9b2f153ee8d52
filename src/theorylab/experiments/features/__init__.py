"""Experiments about feature learning: which directions of the inputs a network finds."""
