"""The experiment on the Polyak–Łojasiewicz condition: verdicts, what is not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import polyak_lojasiewicz as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("ratio", lambda r: r.least / 2, "at least the kernel's least"),
    ("ratio", lambda r: 3 * r.least, "Twice the least"),
    ("loss", lambda r: r.loss * 0 + r.loss[:, :, :1], "Convergence is exponential"),
    ("loss", lambda r: r.loss * 0 + r.loss[:, :, :1], "exponential rate"),
    ("loss", lambda r: r.loss * (r.loss == r.loss[:, :, :1]), "With the largest eigenvalue"),
    ("least", lambda r: r.least - 0.9 * r.least * (r.loss < r.loss[:, :, :1]), "keeps at"),
    ("distance", lambda r: 100 * r.distance, "A ball is enough"),
    ("distance", lambda r: r.distance / 100, "A quarter"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_refuted(smoke, verdict, field, corrupt, words):
    assert verdict(words, smoke._replace(**{field: corrupt(smoke)})) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match=r"num_seeds must be .* at least 2"):
        experiment.Config(num_seeds=1)
