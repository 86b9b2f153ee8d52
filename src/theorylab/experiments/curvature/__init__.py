"""Experiments about curvature."""
