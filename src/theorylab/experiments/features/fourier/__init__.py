"""Fourier features of modular addition: neurons, attention, margins and grokking."""
