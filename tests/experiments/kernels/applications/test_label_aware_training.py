"""The experiment on Θ^NTH: verdicts, results that are not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.applications import label_aware_training as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Places of O₄ exchanged, labelings exchanged, wide networks that move as far."""
    own = smoke.kernels

    def judged(words, **fields):
        return verdict(words, smoke._replace(kernels=own._replace(**fields)))

    assert judged("+ λ_l)) is: the", predicted=own.printed) != Verdict.SUPPORTED
    assert judged("nearer to the mean", predicted=own.printed) != Verdict.SUPPORTED
    exchanged = {"printed": own.predicted, "predicted": own.printed}
    assert judged("as Eq. 2.158 amounts to", **exchanged) == Verdict.SUPPORTED
    other = own.trained[:, ::-1]
    assert judged("depends on the labels", trained=other) == Verdict.REFUTED
    assert judged("So it does for Θ^NTH", predicted=other) == Verdict.REFUTED
    assert judged("trained on grows.", trained=2 * own.plain[:, None] - own.trained) != (
        Verdict.SUPPORTED
    )
    still = smoke._replace(wide_plain=own.plain, wide_trained=own.trained[:, 0])
    assert verdict("wider networks move less", still) != Verdict.SUPPORTED


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


def test_config_outside_its_domain_is_refused():
    with pytest.raises(ValueError, match="wider must be a whole number, at least 2, got 1"):
        experiment.Config(wider=1)
