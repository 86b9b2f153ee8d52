"""Kernels of infinitely wide networks, in closed form and by sampling."""
