"""The experiment on convolutional kernels: verdicts, and corrupted results that fail."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.infinite import convolution as experiment

TINY = experiment.Config(
    widths=(4, 8), num_pixels=3, pixel_counts=(3, 4), num_seeds=2, num_draws=1, num_samples=2
)


def test_smoke_run_has_no_surprises(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Errors that stay or fall where they should not, another kernel, other costs."""
    assert verdict("over equal offsets", smoke._replace(error=smoke.dense_error)) == Verdict.REFUTED
    assert (
        verdict("one pixel the error", smoke._replace(dense_error=smoke.error)) == Verdict.REFUTED
    )
    assert (
        verdict("to 2 percent", smoke._replace(projection=1.1 * smoke.projection))
        == Verdict.REFUTED
    )
    assert verdict("reading of", smoke._replace(reading=smoke.one_pixel)) == Verdict.REFUTED
    assert verdict("fully connected", smoke._replace(dense=smoke.recursion)) == Verdict.REFUTED
    exchanged = smoke._replace(
        flat_operations=smoke.pooled_operations, pooled_operations=smoke.flat_operations
    )
    assert verdict("for a flattened", exchanged) == Verdict.REFUTED
    assert verdict("for a pooled", exchanged) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="depth must be a whole number, at least 2, got 1"):
        experiment.Config(depth=1)
    with pytest.raises(ValueError, match="widths must be whole numbers, two or more"):
        experiment.Config(widths=(8,))
    with pytest.raises(ValueError, match="num_pixels must be a whole number, at least 3"):
        experiment.Config(num_pixels=2)
    with pytest.raises(
        ValueError,
        match="two or more and increasing, each at least 3",
    ):
        experiment.Config(pixel_counts=(2, 4))


def test_the_figure_draws(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2
