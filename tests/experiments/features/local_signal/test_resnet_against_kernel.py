import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.local_signal import resnet_against_kernel as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("larger images 93 %", "network", 0.5),
        ("over 96 %", "network", 0.5),
        ("5 points more", "kernel", 0.99),
        ("gap grows", "kernel", 0.99),
        ("It is solved", "halfway", 0.1),
        ("gradient of its squares", "slope", 0.5),
        ("learned too little", "kernel_train", 0.6),
        ("without any learning rate", "regression", 0.99),
    ],
)
def test_what_changes_in_the_noise_decides(smoke, verdict, words, field, value):
    broken = getattr(smoke, field).copy()
    broken[:, -1] = value
    assert verdict(words, smoke._replace(**{field: broken})) == Verdict.REFUTED


def test_a_kernel_that_cannot_read_images_at_all_would_be_seen(smoke, verdict):
    broken = smoke.kernel.copy()
    broken[:, 0] = 0.5
    assert verdict("Without noise", smoke._replace(kernel=broken)) == Verdict.REFUTED


def test_a_wide_resnet_is_compared_too():
    """One cell on black and one in noise, a step of training and two of the regression."""
    sizes = {"num_train": 8, "num_test": 8, "batch_size": 8, "num_epochs": 1, "num_seeds": 1}
    wide = {"architecture": "wide_resnet", "width": 1, "regression_steps": 2}
    config = dataclasses.replace(experiment.PRESETS["smoke"], **sizes, **wide)
    result = experiment.run(config)
    assert result.network.shape == (1, 2, 1)
    for values in (result.network, result.kernel, result.slope):
        assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"levels": (0.5, 0.2)}, "levels must be increasing"),
        ({"num_train": 0}, "num_train must be a whole number, at least 1, got 0"),
        ({"base": 0}, "base must be a whole number, at least 1, got 0"),
        ({"background": "tiles", "classes": tuple(range(10))}, "classes must leave out some"),
        (
            {"tangent_rates": (-1.0,)},
            "tangent_rates must be finite numbers, one or more, each positive",
        ),
        ({"placement_seeds": 9}, "placement_seeds must be at most num_seeds"),
        ({"batch_size": 3000}, "batch_size must be at most num_train"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
