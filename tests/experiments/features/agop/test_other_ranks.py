"""Other polynomials in one program: the same as drawn by themselves, and cosines by hand."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.data import low_rank_polynomial, polynomial_agop
from theorylab.experiments.features.agop._other_ranks import aligned_with, with_ranks
from theorylab.experiments.features.agop._polynomials import (
    PolynomialTask,
    PolynomialTraining,
    Start,
)


def test_starts_of_another_rank_are_those_drawn_for_it():
    """Oracle: the other polynomial from the same keys; targets over 2 and √14, or as drawn."""

    def starts(rank, unit):
        def one(key):
            drawn = low_rank_polynomial(key, 5, 10, rank)
            data = replace(drawn, y=drawn.y / unit, law="")
            return Start(data, data, data, jnp.ones(3), jnp.ones(()))

        return jax.vmap(one)(jax.random.split(jax.random.key(0), 2))

    expected = jax.tree.map(
        lambda *leaves: jnp.concatenate(leaves), starts(4, 2.0), starts(3, 14**0.5)
    )
    for scaled, unit in ((True, 2.0), (False, 1.0)):
        found = with_ranks(starts(4, unit), PolynomialTask(4, 10, scaled=scaled), (4, 3))
        for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


def test_cosine_with_another_matrix_by_hand():
    """Oracle: the cosine of the whole matrix of 12 inputs."""
    root = np.random.default_rng(0).normal(size=(12, 12))
    gram = root @ root.T

    def cosine(other):
        return np.sum(gram * other) / np.linalg.norm(gram) / np.linalg.norm(other)

    blank = dict.fromkeys(PolynomialTraining._fields, np.zeros(()))
    own = cosine(np.asarray(polynomial_agop(2, 12)))
    learned = PolynomialTraining(**{**blank, "corner": gram[:10, :10], "alignment": np.array(own)})
    found = aligned_with(np.asarray(polynomial_agop(3, 10)), learned, PolynomialTask(2))
    np.testing.assert_allclose(found, cosine(np.asarray(polynomial_agop(3, 12))), rtol=1e-6)
