"""Local signal adaptivity: one informative patch among noisy ones, networks against kernels."""
