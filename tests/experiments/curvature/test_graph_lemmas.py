"""The experiment on the proof's lemmas: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.answers.base import fields_of
from theorylab.claims import Verdict
from theorylab.experiments.curvature import graph_lemmas as experiment

SMOKE = experiment.PRESETS["smoke"]


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Norms that all stay; that all grow like m or m²; a last block that is not 0."""
    start, ball = smoke.start, smoke.ball
    ones = {name: np.ones_like(getattr(start, name)) for name in list(fields_of(start))[:5]}
    still = smoke._replace(start=start.replace(**ones))
    still.start.norms[..., -1, :] /= np.sqrt(start.in_degrees)[..., None]  # of the derivatives
    for words in ("at the start it grows", "Behind a layer", "at the start the largest block"):
        assert verdict(words, still) == Verdict.REFUTED
    steep = np.array(SMOKE.widths, float)
    fast = start.replace(
        largest=0 * start.largest + steep,
        norms=0 * start.norms + steep[:, None, None],
        frobenius=0 * start.frobenius + steep[:, None] ** 2,
    )
    grown = smoke._replace(start=fast, reads=smoke.degrees * np.ones_like(smoke.reads))
    for words in ("largest of the values", "root of their ratio", "only layers above", "Frobenius"):
        assert verdict(words, grown) == Verdict.REFUTED
    assert verdict("from neuron to neuron", grown) == Verdict.REFUTED
    further = ball.replace(
        lengths=0 * ball.lengths + steep, norms=0 * ball.norms + steep[:, None, None]
    )
    for words in ("the length of what", "If layers grow alike", "and so every block"):
        assert verdict(words, smoke._replace(ball=further)) == Verdict.REFUTED
    curved = start.norms.copy()
    curved[..., 2, 2] = 1e-3
    last = smoke._replace(start=start.replace(norms=curved))
    assert verdict("last layer's weights with themselves", last) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="increasing, each at least 8"):
        experiment.Config(widths=(4, 8))
    with pytest.raises(ValueError, match="num_steps must be a whole number, at least 2"):
        experiment.Config(num_steps=1)
