import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.local_signal import activation_sparsity as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_shares_that_rise_are_seen(smoke, verdict):
    """Oracle: time turned around."""
    shares = smoke.shares[:, ::-1].copy()
    shares[:, 0] = 0.0
    rising = smoke._replace(shares=shares, undecayed=smoke.undecayed[:, ::-1])
    for words in ("In most layers", "falls throughout", "Weight decay is not needed"):
        assert verdict(words, rising) == Verdict.REFUTED


def test_controls_can_fail(smoke, verdict):
    assert verdict("hardly learns", smoke._replace(frozen=smoke.shares)) == Verdict.REFUTED
    unlearned = smoke._replace(accuracy=np.full_like(smoke.accuracy, 0.5))
    assert verdict("fit 90 %", unlearned) == Verdict.REFUTED


@pytest.mark.parametrize(("norm", "other"), [("layer", "BatchNorm"), ("batch", "LayerNorm")])
def test_a_wide_resnet_has_the_norm_that_is_asked_for(norm, other):
    layers = repr(experiment._architecture(experiment.Config(norm=norm), 10))
    assert f"{norm.capitalize()}Norm" in layers
    assert other not in layers


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0}, "width must be a whole number, at least 1, got 0"),
        ({"num_epochs": 0}, "num_epochs must be a whole number, at least 1, got 0"),
        ({"num_records": 3}, "num_records must be a whole number, from 4 to 100, got 3"),
        ({"batch_size": 5000}, "batch_size and num_probed must be at most 1200"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number, positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
