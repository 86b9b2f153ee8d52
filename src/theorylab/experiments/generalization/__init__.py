"""Experiments on generalization: what holds beyond the sample."""
