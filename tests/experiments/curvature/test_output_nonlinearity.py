"""The experiment on nonlinear outputs: verdicts, what is not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import output_nonlinearity as experiment
from theorylab.experiments.curvature.output_nonlinearity import Fits


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """With and without ψ exchanged; a formula without its square; a loss that stays."""
    norms, fits = smoke
    exchanged = smoke._replace(norms=norms._replace(linear=norms.curved, curved=norms.linear))
    assert verdict("as large at every width", exchanged) == Verdict.REFUTED
    assert verdict("With the identity", exchanged) == Verdict.REFUTED
    wrong = smoke._replace(norms=norms._replace(formula=norms.formula**0.5))
    assert verdict("within a tenth", wrong) != Verdict.SUPPORTED
    loss = fits.loss.copy()
    loss[0, 1] = 0.002
    broken = smoke._replace(fits=Fits(loss=loss, least=-fits.least, margin=fits.margin - 1))
    for words in ("below 0.001", "at least the least", "positive all the way"):
        assert verdict(words, broken) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="where tanh is curved"):
        experiment.Config(output=0.0)
    with pytest.raises(ValueError, match="num_steps must be a whole number, at least 1"):
        experiment.Config(num_steps=0)
