"""Kernel regression: features, exact and approximate solvers, and their cost."""
