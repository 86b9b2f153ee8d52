"""The experiment on small tables: verdicts, results that are not so, bad configs."""

import dataclasses

import jax
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.data import table
from theorylab.experiments.kernels.applications import tabular as experiment
from theorylab.kernels import infinite_kernels
from theorylab.models import NTK, mlp


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """The last of all methods; labels in random order that are told all the same."""
    worst = smoke._replace(
        ranks=smoke.ranks[:, ::-1],
        accuracy=smoke.accuracy[:, :, ::-1],
        shuffled=smoke.shuffled + 1,
    )
    for words in (
        "ahead of the Gaussian",
        "rank the tangent kernel is ahead of the random forest",
        "accuracy the tangent kernel is ahead",
        "half a rank behind",
        "Its mean accuracy",
        "On most tables",
        "a linear model",
        "in random order",
    ):
        assert verdict(words, worst) != Verdict.SUPPORTED, words


def test_columns_of_zeros_change_no_kernel():
    """Oracle: the kernel of the table as it is."""
    x = np.random.default_rng(0).normal(size=(4, 3))
    scales = NTK(weight_scale=1.4, bias_scale=0.1)
    kernels = [
        infinite_kernels(mlp([1]), jax.numpy.asarray(points), parametrization=scales, bias="normal")
        for points in (x, experiment._filled(x))
    ]
    np.testing.assert_allclose(kernels[1].ntk, kernels[0].ntk, rtol=1e-12)


def test_training_rows_are_standard_and_have_all_classes_in_their_share():
    config = experiment.PRESETS["smoke"]
    part = experiment._part(table("wine"), np.random.default_rng(0), config)
    np.testing.assert_allclose(part.x.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(part.x.std(axis=0), 1, rtol=1e-12)
    shares = np.bincount(part.classes) / len(part.classes)
    np.testing.assert_allclose(shares, np.array([59, 71, 48]) / 178, atol=0.03)
    rows = np.concatenate([part.x, part.tests])
    assert len(np.unique(rows, axis=0)) == len(rows)  # no row is in both parts
    seen = np.concatenate([fold for _, fold in experiment._folds(part.classes)])
    np.testing.assert_array_equal(np.sort(seen), np.arange(len(part.classes)))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_splits", 0, "num_splits must be a whole number, at least 1, got 0"),
        ("num_train", 10, "num_train must be a whole number, from 40 to 2048, got 10"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
