"""The experiment on spectra: verdicts, claims that can fail, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import zonal_spectrum as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Spectra of the other sphere, odd modes that are there, series of another kernel."""
    spectra, embedded = smoke.spectra, smoke.embedded

    def seen(words, **fields):
        return verdict(words, smoke._replace(spectra=spectra._replace(**fields)))

    assert seen("fall as k⁻².", circle=spectra.ball) == Verdict.REFUTED
    assert seen("fall as k⁻³.", ball=spectra.circle) == Verdict.REFUTED
    assert seen("no eigenvalue of odd degree", shallow=spectra.shallow_biased) == Verdict.REFUTED
    assert seen("With biases", shallow_biased=spectra.shallow) == Verdict.REFUTED
    assert seen("are mλ", gram=2 * spectra.gram) == Verdict.REFUTED
    assert seen("sums over the arc", series=spectra.series / 2) == Verdict.REFUTED
    right = spectra.gram * spectra.gram_sizes
    assert seen("are m²λ", gram=right) == Verdict.SUPPORTED
    assert seen("whatever the kernel", printed_series=spectra.series) == Verdict.SUPPORTED

    def after(words, **fields):
        return verdict(words, smoke._replace(embedded=embedded._replace(**fields)))

    assert after("does not change", moved=embedded.moved_plain) == Verdict.REFUTED
    assert after("kernel of plain", moved_plain=embedded.moved) == Verdict.REFUTED
    assert after("cos 2πkb", series=embedded.printed_series) == Verdict.REFUTED
    assert after("cos 4πkb", printed_series=embedded.series) == Verdict.SUPPORTED


def test_the_embedding_moves_every_eigenvalue_to_kb_and_leaves_no_other(smoke):
    """Oracle: the spectrum before the embedding, spread out by hand."""
    found, expected = smoke.embedded.shifted, smoke.embedded.expected_shift
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


def test_config_outside_its_domain_is_refused():
    with pytest.raises(ValueError, match="num_degrees must be a whole number, from 16 to 511"):
        experiment.Config(num_degrees=9)
