"""The experiment on the dynamics of a threshold: verdicts, claims that can fail, bad configs."""

import dataclasses

import pytest

from theorylab.claims import Verdict, fulfils
from theorylab.experiments.features.local_signal import threshold_dynamics as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A run backwards, one off the true risk, printed noise that learns, ties that agree."""
    reverse = smoke._replace(
        signal=smoke.signal[:, ::-1], bias=smoke.bias[:, ::-1], accuracy=smoke.accuracy[:, ::-1]
    )
    for words in ("turns to the signal", "The bias falls", "relative to the filter", "Accuracy"):
        assert verdict(words, reverse) == Verdict.REFUTED
    off = smoke._replace(signal=1.3 * smoke.signal, bias=1.2 * smoke.bias)
    for words in ("to 5 %", "to 15 %"):
        assert verdict(words, off) == Verdict.REFUTED
    assert verdict("tabulated", smoke._replace(table=1.02 * smoke.table)) == Verdict.REFUTED
    assert verdict("the bias rises", smoke._replace(first_bias=-1.0)) == Verdict.REFUTED
    alive = smoke._replace(printed_accuracy=0 * smoke.printed_accuracy + 0.6)
    assert verdict("rises above 0.55 too", alive) == Verdict.SUPPORTED
    assert verdict("ends dead", alive) == Verdict.REFUTED
    agree = smoke._replace(tied_accuracy=smoke.printed_accuracy)
    assert verdict("call the dead network better", agree) == Verdict.REFUTED


def test_what_is_printed_is_judged_with_the_printed_parameters_only():
    claim = next(claim for claim in experiment.CLAIMS if claim.kind == "printed")
    config = experiment.Config()
    assert fulfils(vars(config), claim.regime)
    for field, value in {"printed_noise": 2.0, "printed_batch": 100, "num_patches": 100}.items():
        assert not fulfils(vars(dataclasses.replace(config, **{field: value})), claim.regime)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_patches", 1, "num_patches must be a whole number, at least 2, got 1"),
        ("dimension", 1, "dimension must be a whole number, at least 2, got 1"),
        ("batch_size", 0, "batch_size must be a whole number, at least 1, got 0"),
        ("num_steps", 10, "num_steps must be a whole number, at least 40, got 10"),
        ("printed_noise", -1.0, r"printed_noise must be a finite number, positive, got -1\.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
