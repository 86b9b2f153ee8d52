"""Experiments on what optimisation prefers when many solutions fit."""
