"""The experiment on the descent lemma: verdicts, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import descent_lemma as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("below the parabola", "parabola", lambda r: -r.parabola),
        ("With η just below", "gain", lambda r: r.doubled),
        ("Twice that gain", "doubled", lambda r: r.gain),
        ("With ‖η∇f‖²", "slack", lambda r: r.printed),
        ("grows exponentially", "growth", lambda r: 1 / r.growth),
        ("is enough", "ratio", lambda r: 1 / r.ratio),
        ("On a tanh network", "network", lambda r: -r.network),
    ],
)
def test_a_wrong_measurement_is_refuted(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) == Verdict.REFUTED


def test_what_is_printed_could_be_supported(smoke, verdict):
    """The errata are findings, not judges that always say no."""
    assert verdict("With ‖η²∇f‖²", smoke._replace(printed=smoke.slack)) == Verdict.SUPPORTED
    still = smoke._replace(ratio=np.ones_like(smoke.ratio))
    assert verdict("is needed", still) == Verdict.SUPPORTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="num_steps must be a whole number, at least 10"):
        experiment.Config(num_steps=1)
