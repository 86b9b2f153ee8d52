"""Margins of classification."""

import numpy as np

from theorylab.generalization import classification_margins


def test_margins_are_those_of_a_loop():
    """Oracle: brute force."""
    rng = np.random.default_rng(0)
    outputs, classes = rng.normal(size=(30, 4)), rng.integers(0, 4, 30)
    found = classification_margins(outputs, np.eye(4)[classes])
    for f, c, margin in zip(outputs, classes, found, strict=True):
        assert margin == f[c] - max(f[j] for j in range(4) if j != c)


def test_one_output_has_a_sign():
    """Oracle: y f."""
    found = classification_margins(np.array([[2.0], [3.0]]), np.array([[1.0], [-1.0]]))
    assert found.tolist() == [2.0, -3.0]
