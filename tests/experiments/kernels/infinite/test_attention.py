"""The experiment on attention at infinite width: verdicts, claims that can fail, bad configs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.infinite import attention as experiment
from theorylab.models import SelfAttention

TINY = experiment.Config(
    widths=(2, 3), num_heads=(1, 2), head_width=2, num_draws=3, num_limit_draws=4, num_seeds=2
)


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Heads that become Gaussian alone, or never; a wrong kernel; logits exchanged."""
    wrong = smoke._replace(
        output_kurtosis=smoke.linear_kurtosis / 10,
        single_kurtosis=smoke.linear_kurtosis,
        linear_kurtosis=smoke.single_kurtosis,
        heads_kurtosis=np.repeat(
            smoke.heads_kurtosis[:, :1], smoke.heads_kurtosis.shape[1], axis=1
        ),
        kernel_error=smoke.uniform_error,
        logit_size=smoke.printed_size,
    )
    for words in (
        "are not Gaussian",
        "that of attention with Gaussian logits",
        "falls as 1/H",
        "goes to its average",
        "falls as 1/n",
        "stay twice as far",
        "The entries of QKᵀ/√n",
    ):
        assert verdict(words, wrong) == Verdict.REFUTED, words
    broken = smoke._replace(heads_kurtosis=smoke.heads_kurtosis * np.nan)
    assert verdict("falls as 1/H", broken) == Verdict.INCONCLUSIVE


def test_a_layer_is_its_formula():
    """Oracle: one head in NumPy; its covariance over W_O is that of P V/√n."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 4))
    shapes = {"query": (4, 5), "key": (4, 5), "value": (4, 5), "output": (5, 2)}
    params = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    outputs, kernel = experiment._layer(
        jnp.asarray(x), SelfAttention(2, 1, 5), jax.tree.map(jnp.asarray, params)
    )
    query, key, value = (x @ params[name] / 2 for name in ("query", "key", "value"))
    weights = np.exp(query @ key.swapaxes(1, 2) / np.sqrt(5))
    head = weights / weights.sum(axis=-1, keepdims=True) @ value / np.sqrt(5)
    np.testing.assert_allclose(outputs, head @ params["output"], rtol=1e-12)
    np.testing.assert_allclose(kernel, np.einsum("nsc,mtc->nsmt", head, head), rtol=1e-12)
    square, printed = experiment._logit_squares(
        jnp.asarray(x[0]), jax.tree.map(jnp.asarray, params)
    )
    assert square == pytest.approx(np.mean((query[0] @ key[0].T) ** 2) / 5, rel=1e-12)
    assert printed == pytest.approx(np.mean((query[0].T @ key[0]) ** 2) / 5, rel=1e-12)


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


def test_memory_grows_with_the_draws():
    large = dataclasses.replace(TINY, num_draws=3000, widths=(2, 4096))
    assert experiment.memory(large) > 1e9 > experiment.memory(TINY)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_positions", 1, "num_positions must be a whole number, at least 2, got 1"),
        ("num_draws", 1, "num_draws must be a whole number, at least 2, got 1"),
        ("head_width", 0, "head_width must be a whole number, at least 1, got 0"),
        ("widths", (8,), "widths must be whole numbers, two or more and increasing"),
        ("num_heads", (2, 1), "num_heads must be whole numbers, two or more and increasing"),
        ("scale", 0.0, "scale must be a finite number, positive, got 0.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
