"""The experiment on abc-parametrizations: verdicts, the library's network, planted mistakes."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels import abc_regimes as experiment
from theorylab.models import mlp, network

CONFIG = experiment.Config(widths=(4, 6), dimension=3, num_samples=2, num_seeds=2)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


@pytest.mark.parametrize("name", ["NTK, slower", "between NTK and μP", "standard over n"])
def test_the_network_is_the_library_s(name):
    """Oracle: `models.network` in the same parametrization, by plain gradient descent."""
    a, b, c = given = experiment.PARAMETRIZATIONS[name]
    x, y = jax.random.normal(jax.random.key(0), (2, 3)), jnp.array([1.0, -1.0])
    draws = [
        jax.random.normal(jax.random.key(i), s) for i, s in enumerate([(3, 6), (6, 6), (6, 1)])
    ]
    exponents, width = jnp.array([*a, *b, c]), jnp.array(4.0)
    found = experiment._sizes(draws, x, y, exponents, width, CONFIG)

    model = network(mlp([4, 4], activation="tanh"), (3,), experiment._abc(given))
    narrow = draws[0][:, :4], draws[1][:4, :4], draws[2][:4]
    weights = [4.0 ** -b[i] * w for i, w in enumerate(narrow)]
    params = ({"weight": weights[0]}, (), {"weight": weights[1]}, (), {"weight": weights[2]})
    before = model.apply(params, x)[:, 0]
    rate = CONFIG.learning_rate * 4.0**-c
    moved = []
    for _ in range(CONFIG.num_steps):
        slopes = jax.grad(lambda p: 0.5 * jnp.sum((model.apply(p, x)[:, 0] - y) ** 2))(params)
        params = jax.tree.map(lambda w, g: w - rate * g, params, slopes)
        moved.append(jnp.sqrt(jnp.mean((model.apply(params, x)[:, 0] - before) ** 2)))
    np.testing.assert_allclose(found.output_moved, max(moved), rtol=1e-9)


def test_output_size_is_the_mean_over_signs():
    """Oracle: the root mean square of the output over all signs of four last weights."""
    x, y = jax.random.normal(jax.random.key(0), (2, 3)), jnp.array([1.0, -1.0])
    draws = experiment._draw([(3, 6), (6, 6), (6, 1)], "normal", jax.random.key(1))
    a, b, c = experiment.PARAMETRIZATIONS["NTK"]
    given = (x, y, jnp.array([*a, *b, c]), jnp.array(4.0), CONFIG)
    hidden = jnp.tanh(jnp.tanh(x @ draws[0][:, :4] / 3**0.5) @ draws[1][:4, :4] / 2)
    signs = jnp.array(list(itertools.product([1.0, -1.0], repeat=4)))
    outputs = hidden @ (signs * draws[2][:4].T).T / 2
    expected = jnp.sqrt(jnp.mean(outputs**2))
    np.testing.assert_allclose(experiment._sizes(draws, *given).output, expected, rtol=1e-9)


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """One law in another regime; inequalities with min in place of max; a tame heavy tail."""
    grown = np.arange(1.0, 1.0 + smoke.sizes.moved.shape[2])[None]
    moved = smoke.sizes.moved.copy()
    moved[:, 1] *= grown**2
    other = smoke._replace(sizes=smoke.sizes._replace(moved=moved))
    assert verdict("one regime for all four laws", other) == Verdict.REFUTED
    assert verdict("in all 64 cases", other) == Verdict.REFUTED
    assert verdict("features move as n⁻ʳ", other) == Verdict.REFUTED
    swapped = smoke._replace(predicted=smoke.predicted[::-1])
    assert verdict("in all 64 cases", swapped) == Verdict.REFUTED
    alone = smoke._replace(predicted=0 * smoke.predicted)
    assert verdict("All four regimes", alone) == Verdict.REFUTED
    tame = jax.tree.map(lambda v: np.concatenate([v[:, :4], v[:, :1]], axis=1), smoke.sizes)
    assert verdict("without a variance", smoke._replace(sizes=tame)) == Verdict.REFUTED


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


def test_config_outside_its_domain_is_refused():
    with pytest.raises(ValueError, match="learning_rate must be a finite number, positive"):
        dataclasses.replace(CONFIG, learning_rate=0.0)
