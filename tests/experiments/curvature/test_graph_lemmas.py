"""The experiment on the proof's lemmas: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import graph_lemmas as experiment

SMOKE = experiment.PRESETS["smoke"]


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Norms that all stay; that all grow like m; blocks and counts beyond what bounds them."""
    still = smoke._replace(
        **{name: np.ones_like(getattr(smoke, name)) for name in GROW},
        blocks=np.ones_like(smoke.blocks),
    )
    for words in ("What a neuron reads", "from neuron to neuron", "root of their ratio"):
        assert verdict(words, still) == Verdict.REFUTED
    for words in ("Frobenius", "Behind a layer", "largest block", "know the signs"):
        assert verdict(words, still) == Verdict.REFUTED
    steep = np.broadcast_to(np.asarray(SMOKE.widths, float), smoke.lengths.shape)
    fast = smoke._replace(
        largest=steep, jacobians=np.stack([steep] * 2, axis=-1), counts=smoke.totals
    )
    for words in ("largest of the values", "grow alike", "stays even then", "that number does not"):
        assert verdict(words, fast) == Verdict.REFUTED
    ball = {name: fast.largest[0] for name in ("ball_lengths", "ball_jacobians", "ball_blocks")}
    for words in ("uphill", "grows no faster, either", "blocks still falls"):
        assert verdict(words, smoke._replace(**ball)) == Verdict.REFUTED
    wrong = smoke._replace(whole=smoke.whole * 100, margins=smoke.margins - 1)
    for words in ("norm of the whole", "no more weights"):
        assert verdict(words, wrong) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="widths must be at least 8"):
        experiment.Config(widths=(4, 8))
    with pytest.raises(ValueError, match="num_steps must be a whole number, at least 2"):
        experiment.Config(num_steps=1)


GROW = ("lengths", "jacobians", "frobenius", "reads", "knowing")
