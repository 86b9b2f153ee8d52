"""Experiments about training in time."""
