"""Experiments about tangent kernels and their limits."""
