"""Function classes against their definitions, by hand and by moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import FunctionLaw, draw_sequences

KEY = jax.random.key(0)


@pytest.mark.parametrize("kind", ["linear", "sparse"])
def test_linear_labels_have_weights_of_the_law(kind):
    """Oracle: the weights, solved from as many examples as dimensions; their number and size."""
    drawn = draw_sequences(KEY, FunctionLaw(kind, dimension=6, sparsity=2), 400, 6)
    weights = np.linalg.solve(drawn.x, np.asarray(drawn.clean)[..., None])[..., 0]
    found = np.sum(np.abs(weights) > 1e-6, axis=1)
    assert set(found) == ({6} if kind == "linear" else {2})
    count = found.sum()
    assert abs(np.sum(weights**2) / count - 1) < 4 * np.sqrt(2 / count)


def test_noise_is_added_to_labels_only():
    drawn = draw_sequences(KEY, FunctionLaw(dimension=2, noise=0.5), 100, 50)
    noise = np.asarray(drawn.y - drawn.clean)
    assert abs(noise.var() / 0.25 - 1) < 4 * np.sqrt(2 / noise.size)
    assert abs(np.mean(noise * drawn.clean)) < 4 * 0.5 * np.sqrt(2 / noise.size)


def test_trees_ask_for_signs():
    """Oracle: at most 2ᴰ answers, that do not change with the size of inputs, of variance 1."""
    law = FunctionLaw("tree", dimension=3, depth=2)
    drawn = draw_sequences(KEY, law, 300, 60)
    answers = [len(set(np.asarray(row).tolist())) for row in drawn.clean]
    assert max(answers) == 4
    signs = np.asarray(drawn.x[0]) > 0
    for pattern in np.unique(signs, axis=0):
        assert len(set(np.asarray(drawn.clean[0])[(signs == pattern).all(axis=1)].tolist())) == 1
    assert abs(np.mean(np.square(drawn.clean)) - 1) < 0.2


def test_two_layer_functions_have_the_variance_of_their_inputs():
    """Oracle: E f² = (2/m) Σ E max(0, ⟨w, x⟩)² = d; and f is homogeneous of degree 1."""
    law = FunctionLaw("two_layer", dimension=4, num_neurons=50)
    drawn = draw_sequences(KEY, law, 4000, 2)
    assert abs(np.mean(np.square(drawn.clean)) / 4 - 1) < 0.15
    assert abs(np.mean(drawn.clean)) < 0.15


def test_bad_laws_are_refused():
    with pytest.raises(ValueError, match="sparsity must be at most the dimension 2, got 3"):
        FunctionLaw("sparse", dimension=2)
    with pytest.raises(ValueError, match="depth must be at most 20, got 1000"):
        FunctionLaw("tree", depth=1000)
    with pytest.raises(ValueError, match="dimension must be at least 1, got 0"):
        FunctionLaw(dimension=0)
    with pytest.raises(ValueError, match="noise must not be negative, got -1"):
        FunctionLaw(noise=-1.0)
    with pytest.raises((ValueError, TypeError), match="cubic"):
        FunctionLaw("cubic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a prompt is not empty, got 0"):
        draw_sequences(KEY, FunctionLaw(), 1, 0)
    assert jnp.isfinite(draw_sequences(KEY, FunctionLaw(), 1, 1).y).all()
