"""Products of inputs with fixed arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import network
from theorylab.models.einsum import Einsum

X = np.asarray(jax.random.normal(jax.random.key(0), (3, 4, 2)))
A = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (Einsum("sc,st->tc", A), np.stack([A.T @ x for x in X])),
        (Einsum("sc,s->c", A[:, 1]), (X * A[:, 1, None]).sum(axis=1)),
        (Einsum("sc,ck->sk", A[:2]), X @ A[:2]),
        (Einsum("sc->cs"), X.swapaxes(1, 2)),
        (Einsum("sc,->sc", -2.0), -2 * X),
    ],
)
def test_a_formula_is_computed_for_every_input(layer, expected):
    """Oracle: NumPy, written out."""
    model = network(layer, (4, 2))
    outputs = model.apply(model.init(jax.random.key(0)), jnp.asarray(X))
    np.testing.assert_allclose(outputs, expected, rtol=1e-12)
    assert layer.output_shape((4, 2)) == expected.shape[1:]
    assert layer == Einsum(layer.formula, layer.array)
    assert hash(layer) == hash(Einsum(layer.formula, layer.array))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Einsum("sc"), "formula must look like"),
        (lambda: Einsum("ss->s"), "letters of input and output once"),
        (lambda: Einsum("sc->"), "letters of input and output once"),
        (lambda: Einsum("sc->tc"), "what its output is made of"),
        (lambda: Einsum("sc,st->tc", [1.0]), "one letter for every axis of the array"),
        (lambda: Einsum("sc,st->tc", A).output_shape((2, 2)), "one size of axis 's', got 2"),
        (lambda: Einsum("sc,st->tc", A).output_shape((2,)), "inputs with axes sc"),
    ],
)
def test_a_formula_that_does_not_fit_is_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
