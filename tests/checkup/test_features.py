"""The rows of features: planted units, token ids, pixels, what is skipped, and drawings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from theorylab.checkup import examine
from theorylab.checkup.rows.features import as_picture
from theorylab.features import agop_rank, neural_feature_ansatz

NAMES = ["agop_rank", "feature_ansatz", "dead_units", "saturated_units", "weight_spectra"]
KEY = jax.random.key(0)


def card_of(apply, params, x, num_classes=2, only=tuple(NAMES), **known):
    y = jax.random.randint(jax.random.key(9), (len(jax.tree.leaves(x)[0]),), 0, num_classes)
    return examine(apply, params, x, y, only=only, **known)


def perceptron(params, x):
    """Two hidden layers."""
    h = jnp.tanh(x.reshape(len(x), -1) @ params["first"])
    h = jax.nn.relu(h @ params["second"] + jnp.broadcast_to(params["bias"], (len(x), 10)))
    return h @ params["last"]


def params_of(dimension):
    keys = jax.random.split(KEY, 3)
    return {
        "first": jax.random.normal(keys[0], (dimension, 20)) / dimension**0.5,
        "second": jax.random.normal(keys[1], (20, 10)) / 20**0.5,
        "bias": jnp.zeros((1, 10)).at[0, :3].set(-100.0),
        "last": jax.random.normal(keys[2], (10, 2)) / 10**0.5,
    }


def test_the_rows_are_what_the_library_says():
    """Oracle: three planted dead units of 30; the library's functions; drawings do not fail."""
    x = jax.random.normal(KEY, (50, 6, 6))
    card = card_of(perceptron, params_of(36), x)
    assert [row.status for row in card.rows] == ["measured"] * 5, [r.reason for r in card.rows]
    dead = card.reading("dead_units")
    assert dead.value == pytest.approx(3 / 30)
    assert dead.certainty == "exact"
    assert dead.details["relu 2 ['second']"] == "3 of 10"
    assert card.reading("saturated_units").value == 0.0
    assert card.reading("weight_spectra").value == 0.0
    assert "initialization" in card.reading("weight_spectra").meaning
    rank = card.reading("agop_rank")
    expected = agop_rank(perceptron, params_of(36), x, KEY)
    assert rank.value == pytest.approx(expected.rank)
    assert rank.low < rank.value < rank.high
    assert rank.curves["directions"].shape == (4, 6, 6)
    ansatz = card.reading("feature_ansatz")
    whole = neural_feature_ansatz(perceptron, params_of(36), x)
    layers = [float(whole[f"['{name}']"].correlation) for name in ("first", "second")]
    assert ansatz.value == pytest.approx(np.median(layers), rel=1e-5)
    for row in card.rows:
        if row.measure.draw is not None and row.reading is not None:
            axes = Figure().subplots()
            row.measure.draw(row.reading, axes)
            assert axes.has_data()


def test_token_ids_are_looked_up():
    """Oracle: the library, told where the rows are."""

    def network(params, ids):
        h = params["table"][ids].reshape(len(ids), -1)
        return jnp.tanh(h @ params["first"]) @ params["last"]

    params = {
        "table": jax.random.normal(KEY, (12, 3)),
        "first": jax.random.normal(KEY, (12, 8)),
        "last": jax.random.normal(KEY, (8, 2)),
    }
    ids = jax.random.randint(KEY, (40, 4), 0, 12)
    card = card_of(network, params, ids)
    assert [row.status for row in card.rows] == ["measured"] * 5, [r.reason for r in card.rows]
    expected = agop_rank(network, params, ids, KEY, at="table")
    assert card.reading("agop_rank").value == pytest.approx(expected.rank)
    assert "table" in card.reading("agop_rank").method


def test_pixels_that_are_whole_numbers_are_numbers():
    """Oracle: the same pixels as real numbers."""
    x = jax.random.randint(KEY, (40, 6, 6), 0, 5)
    real = card_of(perceptron, params_of(36), x.astype(float), only=["agop_rank"])
    whole = card_of(perceptron, params_of(36), x, only=["agop_rank"])
    assert whole.reading("agop_rank").value == pytest.approx(real.reading("agop_rank").value)


def test_what_does_not_apply_is_skipped_with_a_reason():
    """Oracle: by definition: one-hot look-ups are not found, a line has no hidden units."""
    hot = card_of(
        lambda w, ids: jax.nn.one_hot(ids, 5).sum(axis=1) @ w,
        jnp.ones((5, 2)),
        jax.random.randint(KEY, (20, 3), 0, 5),
    )
    assert hot["agop_rank"].status == "skipped"
    assert "at=(embed, rest)" in hot["agop_rank"].reason
    assert hot["dead_units"].status == hot["saturated_units"].status == "skipped"
    x = jax.random.normal(KEY, (20, 4))
    rectified = lambda w, x: jax.nn.relu(x @ w) @ jnp.ones((3, 2))  # noqa: E731
    card = card_of(rectified, jnp.eye(4)[:, :3], x, only=["saturated_units"])
    assert "no activation saturates" in card["saturated_units"].reason


def test_saturation_is_told_from_death():
    """Oracle: planted: z = 30 in 5 of 8 tanh units."""
    params = {"w": jnp.ones((3, 8)), "b": jnp.zeros((1, 8)).at[0, :5].set(30.0)}

    def network(params, x):
        h = jnp.tanh(x @ params["w"] + jnp.broadcast_to(params["b"], (len(x), 8)))
        return h @ jnp.ones((8, 2))

    card = card_of(network, params, jax.random.normal(KEY, (40, 3)))
    assert card.reading("saturated_units").value == pytest.approx(5 / 8)
    assert card.reading("dead_units").value == 0.0


def test_images_in_every_order_of_axes():
    """Oracle: by hand."""
    for shape, expected in (((1, 8, 9), (8, 9)), ((8, 9, 3), (8, 9, 3)), ((3, 8, 9), (8, 9, 3))):
        picture = as_picture(np.ones(shape))
        assert picture is not None
        assert picture.shape == expected
        assert picture.max() == 1.0
    assert as_picture(np.ones((2, 9))) is None
