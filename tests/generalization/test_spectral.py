"""Norms of layers, and the complexity that is made of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.generalization import (
    LayerNorm,
    layer_norms,
    spectral_bound,
    spectral_complexity,
    stable_rank_bound,
)


def test_norms_of_products_are_those_of_the_matrices():
    """Oracle: numpy."""
    rng = np.random.default_rng(0)
    params = {"a": rng.normal(size=(4, 7)), "b": np.zeros((1, 7)), "c": rng.normal(size=(3, 7))}
    apply = lambda w, x: jnp.tanh(x @ w["a"] + w["b"]) @ w["c"].T  # noqa: E731
    layers = layer_norms(apply, params, np.ones((5, 4)))
    assert [layer.name for layer in layers] == ["['a']", "['c']"]
    for layer, matrix in zip(layers, (params["a"].T, params["c"]), strict=True):
        np.testing.assert_allclose(layer.spectral, np.linalg.norm(matrix, 2), rtol=1e-12)
        np.testing.assert_allclose(layer.frobenius, np.linalg.norm(matrix), rtol=1e-12)
        np.testing.assert_allclose(layer.rows, np.linalg.norm(matrix, axis=1).sum(), rtol=1e-12)
        assert layer.width == 7


@pytest.mark.parametrize(
    ("side", "stride", "padding", "size", "groups"),
    [(3, 1, "SAME", 12, 1), (3, 2, "SAME", 9, 1), (2, 2, "VALID", 8, 1), (3, 1, "SAME", 8, 2)],
)
def test_norms_of_convolutions_bound_those_of_their_matrices(side, stride, padding, size, groups):
    """Oracle: the dense Jacobian. For stride 1 the bound is near; norms of rows count edges too."""
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(side, side, 2 // groups, 4))

    def apply(w, x):
        y = jax.lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )
        return y.reshape(len(x), -1)

    x = jnp.zeros((1, size, size, 2))
    dense = np.asarray(jax.jacobian(lambda x: apply(kernel, x)[0])(x)).reshape(-1, size * size * 2)
    (layer,) = layer_norms(apply, kernel, x)
    top = np.linalg.norm(dense, 2)
    assert top <= layer.spectral <= (1.15 if stride == 1 else 2.0) * top
    assert np.linalg.norm(dense) <= layer.frobenius * (1 + 1e-12)
    assert np.linalg.norm(dense, axis=1).sum() <= layer.rows * (1 + 1e-12)
    if padding == "VALID":
        np.testing.assert_allclose(layer.rows, np.linalg.norm(dense, axis=1).sum())


def test_a_wide_convolution_is_bounded_by_its_window(monkeypatch):
    """Oracle: the same bound without the frequencies, at least as large."""
    kernel = np.random.default_rng(0).normal(size=(3, 3, 2, 4))
    apply = lambda w, x: jax.lax.conv_general_dilated(  # noqa: E731
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ).reshape(len(x), -1)
    x = jnp.zeros((1, 6, 6, 2))
    fine = layer_norms(apply, kernel, x)[0].spectral
    monkeypatch.setattr("theorylab.generalization.spectral._OPERATIONS", 0.0)
    rough = layer_norms(apply, kernel, x)[0].spectral
    np.testing.assert_allclose(rough, 3 * np.linalg.norm(kernel.reshape(-1, 4), 2))
    assert rough >= fine * np.cos(np.pi / 16) ** 2


def test_complexity_of_known_matrices():
    """Oracle: by hand. Two layers with ratios 8 and 27 have (4 + 9)^{3/2}."""
    layers = [LayerNorm("a", 2.0, 4.0, 16.0, 3), LayerNorm("b", 5.0, 5.0, 135.0, 6)]
    np.testing.assert_allclose(spectral_complexity(layers), 10 * 13**1.5)
    np.testing.assert_allclose(spectral_bound(layers, 0.5, 3.0, 10), 3 * 10 * 13**1.5 / 5)
    expected = np.sqrt(6 * 2**2 * 3.0**2 * 10**2 * (4 + 1) / (0.5**2 * 20))
    np.testing.assert_allclose(stable_rank_bound(layers, 0.5, 3.0, 20), expected)


def test_margins_over_the_complexity_do_not_depend_on_the_scale_of_layers():
    """Oracle: homogeneity. R(a W₁, W₂/a) = R(W₁, W₂), and R(cW₁, W₂) = c R."""
    rng = np.random.default_rng(1)
    one, two = rng.normal(size=(3, 5)), rng.normal(size=(5, 2))
    apply = lambda w, x: jax.nn.relu(x @ w[0]) @ w[1]  # noqa: E731
    complexity = lambda *w: spectral_complexity(layer_norms(apply, w, np.ones((2, 3))))  # noqa: E731
    np.testing.assert_allclose(complexity(7 * one, two / 7), complexity(one, two))
    np.testing.assert_allclose(complexity(7 * one, two), 7 * complexity(one, two))


def test_a_margin_must_be_positive():
    with pytest.raises(ValueError, match="margin must be positive"):
        spectral_bound([LayerNorm("a", 1.0, 1.0, 1.0, 1)], 0.0, 1.0, 1)
