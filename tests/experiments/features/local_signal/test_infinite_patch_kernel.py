"""Infinitely many gates over patches: verdicts, claims that can fail, every helper by an oracle."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from theorylab.claims import Verdict
from theorylab.data.patches import PatchLaw, patch_law
from theorylab.experiments.features.local_signal import infinite_patch_kernel as experiment
from theorylab.kernels import threshold_kernel

TINY = experiment.Config(num_patches=(5, 9), num_samples=8, num_seeds=2, num_draws=3)
LAW = patch_law(9, 2)
SETS = experiment._samples(jax.random.key(7), LAW, num_samples=6, num_draws=2)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_a_kernel_that_is_as_good_as_no_gates_is_seen(smoke, verdict):
    """Linear errors instead of those behind thresholds, and the other way round."""
    failing = smoke._replace(
        weights=smoke.linear, linear=smoke.weights, beginning=smoke.linear + 0.1
    )
    assert verdict("The bound is one of few gates", failing) == Verdict.REFUTED
    assert verdict("err less than without", failing) == Verdict.REFUTED
    assert verdict("Where training begins", failing) == Verdict.REFUTED
    assert verdict("At the least k the best threshold", failing) != Verdict.SUPPORTED
    one_k = smoke.beginning.copy()
    one_k[-1] += 0.5  # one k is enough to refute
    assert verdict("Where training begins", smoke._replace(beginning=one_k)) == Verdict.REFUTED


def test_errors_that_do_not_move_as_claimed_are_seen(smoke, verdict):
    """Patches and samples turned round; no errors at all; gates that see without the signal."""
    assert (
        verdict("With more noisy", smoke._replace(weights=smoke.weights[::-1])) == Verdict.REFUTED
    )
    turned = smoke._replace(weights=smoke.weights[:, ::-1])
    assert verdict("Four times the samples", turned) == Verdict.REFUTED
    perfect = smoke._replace(weights=0 * smoke.weights, blind=0 * smoke.blind)
    for words in ("Without the patch", "the biases' gradients alone"):
        assert verdict(words, perfect) == Verdict.REFUTED


def test_wrong_kernels_and_closed_forms_are_seen(smoke, verdict):
    """Kernels off by a millionth part or more, errors below the floor, another mean."""
    wrong = smoke._replace(open_kernels=smoke.open_kernels * (1 + 1e-5), exact=smoke.exact - 0.1)
    for words in ("the linear kernel", "one of angles", "no fit errs less"):
        assert verdict(words, wrong) == Verdict.REFUTED
    other = smoke._replace(mean_predicted=smoke.mean_predicted + 0.03)
    assert verdict("as the closed form says", other) == Verdict.REFUTED


def test_noise_is_about_as_long_as_the_signal():
    """Oracle: k/log²k by hand, 1.98, 3.01, 5.00 and 20.96."""
    assert [experiment.dimension_of(k) for k in (13, 42, 111, 1000)] == [2, 3, 5, 21]


def test_samples_hold_the_signal_with_its_label_taken_off():
    """Oracle: one patch of every sample is w*, once; without it the others stay as they are."""
    is_signal = np.all(np.asarray(SETS) == np.asarray(LAW.signal), axis=3)
    assert SETS.shape == (2, 6, 10, 2)
    assert (is_signal.sum(axis=2) == 1).all()
    blind = experiment._blinded(np.asarray(SETS), LAW)
    np.testing.assert_array_equal(blind[is_signal], 0.0)
    np.testing.assert_array_equal(blind[~is_signal], np.asarray(SETS)[~is_signal])


def test_kernels_of_sets_are_the_librarys():
    """Oracle: all pairs at once. The third is Θ_b at t = 0, to the 1e-6 of parallel patches."""
    found = experiment._kernels(SETS, 0.8)
    for index, x in enumerate(SETS):
        weights = threshold_kernel.weight_kernel(x, x, 0.8)
        biases = threshold_kernel.bias_kernel(x, x, 0.8)
        np.testing.assert_allclose(found[0, index], weights, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found[1, index], biases, rtol=1e-10, atol=1e-12)
        signs = threshold_kernel.bias_kernel(x, x, 0.0)
        np.testing.assert_allclose(found[2, index], signs, atol=1e-6)


def test_patches_of_zeros_have_no_angle():
    """Oracle: the same patches without them."""
    x = SETS[0, 0]
    padded = jnp.concatenate([x, jnp.zeros((2, 2))])
    found = experiment.sign_kernel(padded, SETS[0, 1])
    np.testing.assert_allclose(found, experiment.sign_kernel(x, SETS[0, 1]), rtol=1e-12)


def test_all_kernels_stand_in_the_order_of_the_result():
    """Oracle: the library's, t = 0 first and last."""
    x = np.asarray(SETS)
    linear, weights, biases, both, beginning = (g[0] for g in experiment._all_kernels(x, 0.8))
    expected = {t: [f(SETS[0], SETS[0], t) for f in FUNCTIONS] for t in (0.0, 0.8)}
    np.testing.assert_allclose(linear, expected[0.0][0], atol=1e-9)
    np.testing.assert_allclose(weights, expected[0.8][0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(biases, expected[0.8][1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(both, sum(expected[0.8]), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(beginning, sum(expected[0.0]), atol=1e-6)


FUNCTIONS = (threshold_kernel.weight_kernel, threshold_kernel.bias_kernel)


@pytest.mark.parametrize("kernel", FUNCTIONS)
def test_classifiers_are_odd(kernel):
    """An invariance: the other sign of a sample is the other sign of its row."""
    rows = kernel(-SETS[0], SETS[1], 0.8)
    np.testing.assert_allclose(rows, -kernel(SETS[0], SETS[1], 0.8), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("ridge", [1e-3, 0.5])
def test_leaving_one_out_is_fitting_to_the_others(ridge):
    """Oracle: as many fits as samples, without each in turn."""
    x = np.random.default_rng(0).normal(size=(5, 12, 4)) + 0.3
    kernels = x @ np.moveaxis(x, 1, 2)
    expected = [np.mean([left_out(g, i, ridge) <= 0 for i in range(12)]) for g in kernels]
    np.testing.assert_allclose(experiment.errors(kernels, ridge), expected)
    assert 0 < np.mean(expected) < 1
    # An output of exactly 0 is an error: of samples that have nothing in common.
    np.testing.assert_array_equal(experiment.errors(np.eye(3)[None], ridge), 1.0)


def left_out(kernel, index, ridge):
    """The output at one sample of a fit to the others."""
    others = np.arange(len(kernel)) != index
    added = ridge * np.trace(kernel) / len(kernel) * np.eye(others.sum())
    alpha = np.linalg.solve(kernel[np.ix_(others, others)] + added, np.ones(others.sum()))
    return kernel[index, others] @ alpha


def test_parts_of_the_samples_are_fitted_by_themselves():
    """Oracle: two halves by hand; a whole is itself."""
    x = np.random.default_rng(1).normal(size=(4, 12, 3)) + 0.3
    kernels = x @ np.moveaxis(x, 1, 2)
    halves = experiment.errors(kernels[:, :6, :6], 0.1), experiment.errors(kernels[:, 6:, 6:], 0.1)
    found = experiment.split_errors(kernels, 2, 0.1)
    np.testing.assert_allclose(found, (halves[0] + halves[1]) / 2)
    assert not np.array_equal(*halves)
    whole = experiment.split_errors(kernels, 1, 0.1)
    np.testing.assert_allclose(whole, experiment.errors(kernels, 0.1))


def test_fits_without_thresholds_are_ridge_regression():
    """Oracle: the normal equations in d dimensions."""
    sums = np.random.default_rng(2).normal(size=(3, 10, 2)) + 0.5
    for found, s in zip(experiment._fitted(sums, 0.2), sums, strict=True):
        added = 0.2 * np.sum(s**2) / 10 * np.eye(2)
        np.testing.assert_allclose(found, np.linalg.solve(s.T @ s + added, s.sum(axis=0)))


def test_errors_of_weights_are_those_of_samples():
    """Oracle: 4000 samples, to four standard errors; along w* the law's own error."""
    weights = np.array([[1.0, 0.2], [1.0, 1.0], [-1.0, 0.5]])
    sums = np.asarray(experiment._samples(jax.random.key(3), LAW, 4000, 1)[0].sum(axis=1))
    measured = np.mean(sums @ weights.T <= 0, axis=0)
    found = experiment.linear_error(weights, LAW)
    np.testing.assert_allclose(found, measured, atol=4 * 0.5 / 4000**0.5)
    assert found[1] == pytest.approx(LAW.linear_error, rel=1e-12)


@pytest.mark.parametrize("num_samples", [1, 4, 50])
def test_error_of_the_mean_on_a_line_is_that_of_two_signs(num_samples):
    """Oracle: in one dimension the mean and a test have opposite signs, each by its own Φ."""
    law = PatchLaw(num_patches=9, dimension=1, noise=0.5)
    mean, test = special.ndtr(-(num_samples**0.5) / 1.5), special.ndtr(-1 / 1.5)
    expected = mean * (1 - test) + test * (1 - mean)
    assert experiment.mean_error(law, num_samples) == pytest.approx(expected, abs=1e-7)


def test_error_of_the_mean_in_more_dimensions():
    """Oracle: drawn means and tests, to four standard errors; many samples find w*."""
    law, draws = patch_law(42, 3), 100000
    first, second = np.random.default_rng(3).normal(size=(2, draws, 3)) * np.log(42)
    w = np.asarray(law.signal)
    wrong = np.mean(np.sum((w + first / 20**0.5) * (w + second), axis=1) <= 0)
    assert experiment.mean_error(law, 20) == pytest.approx(wrong, abs=4 * 0.5 / draws**0.5)
    assert experiment.mean_error(law, 10**6) == pytest.approx(law.linear_error, abs=1e-4)


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_patches", (13,), r"two or more and increasing, each at least 3, got \(13,\)"),
        ("num_patches", (2, 9), r"each at least 3, got \(2, 9\)"),
        ("num_patches", (9, 9), r"each at least 3, got \(9, 9\)"),
        ("num_samples", 7, "num_samples must be a whole number, at least 8, got 7"),
        ("threshold", 0.0, "threshold must be a finite number, positive, got 0.0"),
        ("threshold", float("inf"), "threshold must be a finite number, positive, got inf"),
        ("ridge", 0.0, "ridge must be a finite number, at least 1e-12, got 0.0"),
        ("num_seeds", 0, "num_seeds must be a whole number, at least 1, got 0"),
        ("num_draws", 1, "num_draws must be at least num_seeds, 2, got 1"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
