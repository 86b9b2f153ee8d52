"""Answers of all rooms are told, drawn, tabulated and saved."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.answers import Answer, load
from theorylab.answers.base import fields_of
from theorylab.bias import DiagonalFlow, DiagonalParams
from theorylab.curvature import Ball, TensorNorm
from theorylab.dynamics import Decomposition
from theorylab.features import LayerFeatures, Sketch
from theorylab.features.compare import CONTENDERS, FeatureComparison
from theorylab.kernels import Estimate, KernelEstimates, Kernels, SampledKernels, StoredKernels
from theorylab.kernels.finite.spectrum import KernelMoments
from theorylab.kernels.prediction import Spectrum
from theorylab.kernels.prediction.ensembles import EnsembleMoments
from theorylab.kernels.prediction.learning_curves import LearningCurve
from theorylab.kernels.prediction.modes import kernel_modes
from theorylab.kernels.prediction.posterior import Posterior
from theorylab.landscape import Flatness, Segment
from theorylab.numerics.intervals import Interval
from theorylab.training import DescentRun, Trajectory

ONE = jnp.array(1.0)
K = jnp.array([[2.0, 1.0], [1.0, 3.0]])
KERNELS = Kernels(nngp=K, ntk=2 * K)
ESTIMATE = Estimate(mean=K, error=K / 100)
FEW = np.arange(5.0)
ANSWERS: dict[str, Answer] = {
    type(answer).__name__: answer
    for answer in (
        KERNELS,
        ESTIMATE,
        KernelEstimates(mean=KERNELS, standard_error=KERNELS),
        SampledKernels(nngp=ESTIMATE, ntk=ESTIMATE),
        StoredKernels(nngp=np.eye(2), ntk=np.eye(2)),
        KernelMoments(ONE, Estimate(ONE, ONE / 10), Estimate(ONE, ONE / 10)),
        EnsembleMoments(mean=jnp.ones((3, 2, 1)), covariance=jnp.stack([K] * 3)),
        Posterior(mean=jnp.ones((2, 1)), covariance=K),
        Spectrum(jnp.ones(3), jnp.ones(3), jnp.ones(3)),
        LearningCurve(ONE, jnp.ones(3), ONE, 2 * ONE, ONE),
        kernel_modes(K),
        Trajectory(jnp.arange(3), {"loss": jnp.ones(3)}, {"w": K}, ONE > 2, jnp.array(-1)),
        DescentRun(K, jnp.ones(3), jnp.ones(3), jnp.array(3), ONE, ONE > 0),
        Ball(ONE, ONE, ONE, 2 * ONE),
        TensorNorm(ONE, jnp.ones(2), jnp.ones(2)),
        Decomposition(jnp.ones(4), jnp.ones((4, 2)), jnp.ones(4)),
        LayerFeatures(K, K),
        Segment(jnp.ones(3), jnp.linspace(0, 1, 3), jnp.zeros(3), jnp.ones((3, 2))),
        Flatness(jnp.ones(3), jnp.arange(1.0, 4.0), ONE, ONE, ONE, jnp.zeros(3)),
        Sketch(factor=jnp.ones((3, 2)), residual=ONE, bound=ONE),
        FeatureComparison(
            np.arange(3), np.ones((4, 3)), FEW, FEW, (Interval(0.5, 0.4, 0.6),) * 5, ()
        ),
        DiagonalFlow(DiagonalParams(*[jnp.ones((2, 3))] * 2), jnp.ones((2, 3)), jnp.ones(3)),
    )
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_any_room_is_told_and_tabulated(name):
    """Oracle: its names; as many rows as its first array has entries."""
    answer = ANSWERS[name]
    assert repr(answer).startswith(f"{name}({next(iter(fields_of(answer)))}=")
    assert len(repr(answer)) < 600
    first = next(leaf for leaf in jax.tree.leaves(answer) if hasattr(leaf, "shape"))
    assert len(answer.to_pandas()) == first.size


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_any_room_is_drawn_with_words_on_its_axes(name):
    """Oracle: something is there to see, and the values have a name."""
    for axes in ANSWERS[name].plot().axes[:1]:
        assert axes.has_data()
        assert axes.get_ylabel()


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_any_room_comes_back_from_its_file(name, tmp_path):
    """Oracle: what was saved, leaf by leaf."""
    ANSWERS[name].save(tmp_path / "answer.npz")
    found = load(tmp_path / "answer.npz")
    assert jax.tree.structure(found) == jax.tree.structure(ANSWERS[name])
    jax.tree.map(np.testing.assert_array_equal, found, ANSWERS[name])


def test_a_posterior_is_drawn_in_the_band_of_two_deviations():
    """Oracle: mean and covariance."""
    found = Posterior(mean=jnp.array([[1.0], [2.0]]), covariance=jnp.diag(jnp.array([4.0, 9.0])))
    np.testing.assert_array_equal(found.deviation, [2, 3])
    axes = found.plot().axes[0]
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == (2 - 6, 2 + 6)


def test_a_run_is_drawn_with_a_line_for_each_record():
    """Oracle: the records, read off the figure."""
    records = {
        "loss": jnp.array([2.0, 1.0]),
        "outputs": jnp.ones((2, 3)),
        "kernel": jnp.ones((2, 3, 3)),
    }
    run = Trajectory(jnp.array([0, 10]), records, K, ONE > 2, jnp.array(-1))
    axes = run.plot().axes[0]
    labels = [line.get_label() for line in axes.lines]
    assert len(axes.lines) == 1 + 3
    np.testing.assert_array_equal(axes.lines[labels.index("loss")].get_xydata(), [[0, 2], [10, 1]])


def test_a_batch_of_runs_says_how_one_of_them_is_drawn():
    """Oracle: the message, and what it says."""
    many = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), ANSWERS["Trajectory"])
    with pytest.raises(ValueError, match=r"leaf\[0\]"):
        many.plot()
    one: Callable[[Any], Any] = lambda leaf: leaf[0]  # noqa: E731
    assert jax.tree.map(one, many).plot().axes[0].has_data()


def test_both_kernels_are_drawn_as_images():
    """Oracle: the kernels; each with a panel of its own."""
    panels = [axes for axes in KERNELS.plot().axes if axes.images]
    assert [axes.get_title() for axes in panels] == ["NNGP", "NTK"]
    for axes, kernel in zip(panels, KERNELS, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), kernel)


def test_contenders_of_a_comparison_have_names():
    """Oracle: the list of contenders."""
    axes = ANSWERS["FeatureComparison"].plot().axes[0]
    assert [line.get_label() for line in axes.lines] == list(CONTENDERS[:4])
