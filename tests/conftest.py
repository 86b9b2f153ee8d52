"""Strict JAX for every test: float64, no silent broadcasting of ranks."""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
