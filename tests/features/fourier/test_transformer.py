import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import all_sums
from theorylab.features.fourier import AdditionTransformer, token_scores, weight_norm


def by_loops(params, terms, normalize):
    """Two layers with neurons in numpy, one example after the other, head by head."""

    def norm(x):
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt(centred.var(axis=1, keepdims=True) + 1e-5) if normalize else x

    outputs = []
    for row in np.asarray(terms):
        x = params.tokens[row] + params.places
        for layer in params.layers:
            seen, added = norm(x), 0
            for query, key, value, output in zip(*layer[:4], strict=True):
                weights = np.exp((seen @ query) @ (seen @ key).T)
                weights /= weights.sum(axis=1, keepdims=True)
                added = added + weights @ (seen @ value) @ output
            x = x + added
            x = x + np.maximum(0, norm(x) @ layer.up) @ layer.down
        outputs.append(norm(x)[-1] @ params.readout)
    return np.stack(outputs)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_transformer_is_its_formula(normalize):
    """Oracle: numpy loops."""
    shape = {"channels": 6, "num_heads": 2, "head_width": 3, "depth": 2, "num_neurons": 5}
    model = AdditionTransformer(3, 4, normalize=normalize, **shape)
    params = model.init(jax.random.key(0))
    terms = all_sums(3, 4).terms[::7]
    expected = by_loops(jax.tree.map(np.asarray, params), terms, normalize)
    np.testing.assert_allclose(jax.jit(model.apply)(params, terms), expected, rtol=1e-9)


def test_scores_are_those_of_the_attention_between_tokens():
    """Oracle: the definition, and the weights that two tokens without places get."""
    model = AdditionTransformer(2, 5, channels=6, num_heads=3, head_width=2)
    params = model.init(jax.random.key(1))
    scores = np.asarray(token_scores(params))
    layer = params.layers[0]
    for head in range(3):
        product = np.asarray(layer.query[head]) @ np.asarray(layer.key[head]).T
        expected = np.asarray(params.tokens) @ product @ np.asarray(params.tokens).T
        np.testing.assert_allclose(scores[head], expected, rtol=1e-12)


def test_weights_start_with_variance_one_over_the_channels_that_come_in():
    """Oracle: variances, to six standard errors; and the norm is that of all numbers together."""
    model = AdditionTransformer(2, 31, channels=40, num_heads=5, head_width=8, num_neurons=50)
    params = model.init(jax.random.key(2))
    layer = params.layers[0]
    scales = [(params.tokens, 1), (layer.query, 40), (layer.output, 40), (layer.down, 50)]
    for weights, count in [*scales, (params.readout, 40)]:
        assert abs(count * np.var(weights) - 1) < 6 * np.sqrt(2 / weights.size)
    every = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
    np.testing.assert_allclose(weight_norm(params), np.linalg.norm(every), rtol=1e-12)


def test_without_neurons_there_is_attention_only():
    model = AdditionTransformer(2, 5, channels=4, num_heads=1, head_width=2)
    params = model.init(jax.random.key(3))
    assert params.layers[0].up.shape == (4, 0)
    assert jnp.isfinite(model.apply(params, all_sums(2, 5).terms)).all()


def test_a_transformer_needs_heads():
    with pytest.raises(ValueError, match="num_heads must be at least 1, got 0"):
        AdditionTransformer(2, 5, num_heads=0)


def test_terms_that_are_not_of_the_transformer_are_refused():
    model = AdditionTransformer(2, 5, channels=4, num_heads=1, head_width=2)
    params = model.init(jax.random.key(0))
    with pytest.raises(ValueError, match="terms must be from 0 to 4, got 0 to 5"):
        model.apply(params, jnp.array([[0, 5]]))
    with pytest.raises(ValueError, match="terms must be 2 numbers each, got 3"):
        model.apply(params, jnp.array([[0, 1, 2]]))
