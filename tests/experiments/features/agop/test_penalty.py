"""The experiment on prices for gradients: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import penalty as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Prices that help, networks that do not fit, weights that stay as they were drawn."""
    helpful = smoke._replace(
        alignment=smoke.alignment + 1, test=smoke.test - 1, trace=smoke.trace + 9
    )
    for words in ("on the trace makes", "So does", "further from", "test loss is larger"):
        assert verdict(words, helpful) == Verdict.REFUTED
    same = smoke._replace(alignment=smoke.alignment[::-1], train=smoke.train + 1)
    for words in ("costs more alignment", "All networks fit"):
        assert verdict(words, same) == Verdict.REFUTED
    swapped = smoke._replace(
        correlation=smoke.correlation[:, ::-1], cosine=np.zeros_like(smoke.cosine)
    )
    for words in ("above 0.4", "larger than before", "A plain cosine"):
        assert verdict(words, swapped) == Verdict.REFUTED
    assert verdict("below 0.5", swapped) != Verdict.SUPPORTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="strengths must be positive and increase"):
        experiment.Config(strengths=(0.1, 0.01))
    with pytest.raises(ValueError, match="learning_rate must be positive"):
        experiment.Config(learning_rate=0.0)
