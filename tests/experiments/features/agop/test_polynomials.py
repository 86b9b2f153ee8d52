"""Learning polynomials: what is measured, against linear networks that can be taken apart."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import low_rank_polynomial, polynomial_agop
from theorylab.experiments.drawing import panels
from theorylab.experiments.features.agop._polynomials import (
    BatchConfig,
    PolynomialConfig,
    PolynomialTraining,
    Start,
    aligned_with,
    begin,
    begin_each,
    bytes_of,
    learn_each,
    learn_with_batches,
    network_in,
    over_batch_sizes,
    require_batch_sizes,
    super_critical,
    with_ranks,
)
from theorylab.kernels import ntk
from theorylab.models import Dense, Serial, network
from theorylab.training import Batches, gradient_descent

SIZES: dict[str, Any] = {"rank": 4, "dimension": 8, "num_train": 60, "num_test": 40}
KEY = jax.random.key(0)


@dataclass(frozen=True)
class Linear(BatchConfig):
    """f = wᵀx/√8, so that K = XXᵀ/8 never changes."""

    @property
    def model(self):
        return network(Serial(Dense(1)), (8,))


@dataclass(frozen=True)
class Scaled(Linear):
    scaled = True


LINEAR = Linear(**SIZES, max_steps=30, check_every=5)


@pytest.fixture(scope="module")
def starts():
    return begin_each(KEY, 2, LINEAR)


def test_critical_rate_is_n_over_the_top_eigenvalue():
    """Oracle: all eigenvalues of the tangent kernel of a ReLU network, to 0.1 %.

    A learning rate is super-critical above it, and below it is not.
    """
    config = PolynomialConfig(**SIZES, widths=(64,))
    model, start = config.model, jax.jit(lambda key: begin(key, config))(KEY)
    largest = np.linalg.eigvalsh(ntk(model.apply, start.params, start.train.x))[-1]
    exact = 60 / largest
    assert float(start.critical_rate) == pytest.approx(exact, rel=1e-3)
    above = jax.jit(lambda rate: super_critical(model.apply, start.params, start.train.x, rate))
    assert [bool(above(exact * part)) for part in (0.1, 1 - 1e-6, 1 + 1e-6, 10.0)] == [
        False,
        False,
        True,
        True,
    ]


def test_measures_of_a_linear_network_follow_from_its_weights(starts):
    """Oracle: G = wwᵀ/8, all of it in the corner; with w, alignment and test loss by hand.

    η is half of, just above and just below η_crit(all samples) = n/λ_max, exact here: every step is
    super-critical, or none. The first weights of a staircase decide cos(G, diag(4, 3, 2, 1, 0 …)).
    """
    grams = jnp.einsum("sid,sjd->sij", starts.train.x, starts.train.x) / 8
    exact = 60 / jnp.linalg.eigvalsh(grams)[:, -1]
    rates = exact[None] * jnp.array([0.5, 1.001, 0.999])[:, None]
    learned = learn_each(KEY, starts, rates, LINEAR, gradient_descent, Batches(60))
    above = learned.step[1].tolist()
    assert min(above) > 0
    assert learned.num_supercritical.tolist() == [[0, 0], above, [0, 0]]
    reference = np.diag([4.0, 3.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    for place in np.ndindex(3, 2):
        gram = np.asarray(learned.corner[place])
        cosine = np.sum(gram * reference) / np.linalg.norm(gram) / np.linalg.norm(reference)
        assert float(learned.alignment[place]) == pytest.approx(cosine, rel=1e-12)
        weights = gram[0] / np.sqrt(gram[0, 0])  # up to its sign
        x, y = np.asarray(starts.test.x[place[1]]), np.asarray(starts.test.y[place[1]])[:, 0]
        losses = [np.mean((sign * x @ weights - y) ** 2) for sign in (1, -1)]
        assert np.min(np.abs(np.array(losses) - float(learned.test[place]))) < 1e-10
    np.testing.assert_allclose(learned.relative, learned.test / 4, rtol=1e-12)
    assert not np.any(learned.reached)


def test_sizes_of_batches_stand_in_the_middle(starts):
    """Oracle: `learn_each`, with a key of its own for every size.

    Targets are those of before over √Var f* = 2; test losses are then in units of Var f* already.
    """
    config = Scaled(**SIZES, batch_sizes=(5, 20), max_steps=4, check_every=2)
    divided = begin_each(KEY, 2, config)
    np.testing.assert_allclose(divided.test.y, starts.test.y / 2, rtol=1e-12)
    rates = 0.5 * starts.critical_rate[None]
    learned = learn_with_batches(KEY, divided, rates, config)
    assert learned.test.shape == (1, 2, 2)
    np.testing.assert_array_equal(learned.relative, learned.test)
    for place, size in enumerate((5, 20)):
        key, batch = jax.random.fold_in(KEY, size), Batches(size)
        alone = learn_each(key, divided, rates, config, gradient_descent, batch)
        np.testing.assert_allclose(learned.test[:, place], alone.test, rtol=1e-12)
        np.testing.assert_array_equal(learned.num_supercritical[:, place], alone.num_supercritical)


def test_parts_of_the_data_are_apart(starts):
    """No input of the test is among those of training or validation."""
    inputs = [np.asarray(part.x[0]) for part in (starts.train, starts.validation, starts.test)]
    assert [len(part) for part in inputs] == [60, 40, 40]
    assert len(np.unique(np.concatenate(inputs), axis=0)) == 140


@pytest.mark.parametrize(("convention", "largest"), [("ntk", np.inf), ("torch", 1 / 3)])
def test_conventions_differ_in_what_weights_are(convention, largest):
    """Oracle: PyTorch's rule, U(±1/√9) in the first layer and biases; N(0, 1) without them."""
    first = network_in(convention, [2000], 9).init(KEY)[0]
    weights = np.asarray(first["weight"])
    assert np.abs(weights).max() <= largest
    deviation = 1.0 if convention == "ntk" else largest / np.sqrt(3)
    assert weights.std() == pytest.approx(deviation, rel=0.03)  # five standard errors
    assert ("bias" in first) == (convention == "torch")


def test_bytes_grow_with_what_is_held():
    """Oracle: the data of many seeds outweigh all else; each number has 4 bytes, held twice."""
    config = PolynomialConfig(**SIZES, widths=(1,))
    many = bytes_of(config, 10**6) - bytes_of(config, 1)
    assert many / (10**6 - 1) == 4 * (2 * 140 * 9 + 8 * 9)


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="num_test must be a whole number, at least 1, got 0"):
        PolynomialConfig(num_test=0)
    with pytest.raises(ValueError, match="dimension must be at least 10 for rank 3"):
        PolynomialConfig(rank=3, dimension=5)


def test_batch_sizes_increase_up_to_the_training_set():
    require_batch_sizes((5, 20), 20, exactly_two=True)
    for sizes in ((5,), (5, 5), (20, 5), (0, 5)):
        with pytest.raises(ValueError, match="batch_sizes must be whole numbers, two or more and"):
            BatchConfig(batch_sizes=sizes)
    with pytest.raises(ValueError, match=r"must be two and increasing, got \(1, 5, 20\)"):
        require_batch_sizes((1, 5, 20), 20, exactly_two=True)
    with pytest.raises(ValueError, match="at most 19, got 20"):
        BatchConfig(batch_sizes=(5, 20), num_train=19)


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
    for config, unit in ((Scaled, 2.0), (Linear, 1.0)):
        found = with_ranks(starts(4, unit), config(rank=4, dimension=10), (4, 3))
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
    found = aligned_with(np.asarray(polynomial_agop(3, 10)), learned, 2)
    np.testing.assert_allclose(found, cosine(np.asarray(polynomial_agop(3, 12))), rtol=1e-6)


def test_every_rate_has_its_median_and_only_sizes_are_labelled():
    """Oracle: NumPy's median; one line for each of 2 rates."""
    values = np.arange(12.0).reshape(2, 2, 3)
    _, (axis,) = panels("test loss")
    over_batch_sizes([axis], (5, 50), [values], ["small", "large"])
    lines = axis.get_lines()
    assert len(lines) == 2
    np.testing.assert_allclose(
        np.asarray(lines[0].get_ydata(), float), np.median(values[0], axis=1)
    )
    assert [text.get_text() for text in axis.get_xticklabels()] == ["5", "50"]
    assert len(axis.get_xticks(minor=True)) == 0
