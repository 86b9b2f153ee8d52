import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import critical_learning_rate as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def changed(result, part, **fields):
    return result._replace(**{part: getattr(result, part)._replace(**fields)})


def test_rates_that_differ_are_told(smoke, verdict):
    kernel = smoke.trained.kernel
    assert verdict("differ by less than 5 %", changed(smoke, "trained", kernel=1.1 * kernel)) == (
        Verdict.REFUTED
    )
    shuffled = np.random.default_rng(0).permutation(kernel, axis=-1)
    assert verdict("lie on a line", changed(smoke, "trained", kernel=shuffled)) == Verdict.REFUTED
    constant = changed(smoke, "start", exact=1.1 * smoke.start.kernel)
    assert verdict("At the start", constant) == Verdict.REFUTED
    assert verdict("At the largest width", constant) == Verdict.REFUTED


def test_controls_can_fail(smoke, verdict):
    near = changed(smoke, "start", far=smoke.start.kernel)
    assert verdict("thirty times", near) == Verdict.REFUTED
    calm = changed(smoke, "trained", loss=np.ones_like(smoke.trained.loss))
    assert verdict("That training spiked", calm) == Verdict.REFUTED


def test_the_half_is_seen(smoke, verdict):
    doubled = changed(smoke, "step", remainder=2 * smoke.step.remainder)
    assert verdict("It is Δ_H", doubled) == Verdict.REFUTED
    assert verdict("As printed: what the kernel", doubled) == Verdict.SUPPORTED


def test_a_loss_in_other_directions_is_told(smoke, verdict):
    swapped = changed(smoke, "step", top=smoke.step.rest)
    assert verdict("from the Jacobian's singular vectors", swapped) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"widths": (8,)}, r"widths must be .* two or more and increasing, .* got \(8,\)"),
        ({"depths": (1,)}, "depths must be .* each at least 2"),
        ({"batch_size": 1000}, "batch_size must be at most"),
        ({"ratio": -1.0}, "ratio must be .* positive, got -1.0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
