"""The experiment on penalties on gradients: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import penalty as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def changed(result, part, **fields):
    return result._replace(**{part: getattr(result, part)._replace(**fields)})


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Penalties that help, networks that do not fit, weights that stay as they were drawn."""
    free, penalized = smoke
    helpful = changed(
        smoke,
        "penalized",
        alignment=penalized.alignment + 1,
        test=penalized.test - 1,
        trace=penalized.trace + 9,
    )
    for words in ("on the trace makes", "on ‖G‖_F makes", "further from", "test loss is larger"):
        assert verdict(words, helpful) == Verdict.REFUTED
    assert verdict("improves the generalization", helpful) == Verdict.SUPPORTED
    same = changed(smoke, "penalized", alignment=penalized.alignment[::-1])
    assert verdict("costs more alignment", same) == Verdict.REFUTED
    for part in smoke._fields:
        unfitted = changed(smoke, part, train=getattr(smoke, part).train + 1)
        assert verdict("All networks fit", unfitted) == Verdict.REFUTED
    cosine, correlation = np.zeros_like(free.cosine), free.correlation[:, ::-1]
    swapped = changed(smoke, "free", cosine=cosine, correlation=correlation)
    for words in ("above 0.4", "larger than before", "A plain cosine"):
        assert verdict(words, swapped) == Verdict.REFUTED
    assert verdict("below 0.5", swapped) != Verdict.SUPPORTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="strengths must increase"):
        experiment.Config(strengths=(0.1, 0.01))
    with pytest.raises(ValueError, match="strengths must be finite numbers, one or more"):
        experiment.Config(strengths=(0.0, 0.1))
    with pytest.raises(ValueError, match="learning_rate must be a finite number, positive"):
        experiment.Config(learning_rate=0.0)
