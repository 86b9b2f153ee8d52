"""Tangent kernels of finite networks: what they cost, how they scale and move in training."""
