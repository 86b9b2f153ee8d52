import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import mean_field as experiment
from theorylab.experiments.dynamics.mean_field import ERF, LINEAR, NTK, Config


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def scaled(flow, field, case, factors):
    """A flow in which one measurement of one case is multiplied, width by width."""
    values = np.array(getattr(flow, field))
    values[:, :, case] *= np.reshape(factors, (1, -1) + (1,) * (values.ndim - 3))
    return flow._replace(**{field: values})


def shifted(smoke, amount):
    """Linear outputs of the reference, moved by the same amount."""
    outputs = np.array(smoke.reference.outputs)
    outputs[:, LINEAR] += amount
    return smoke._replace(reference=smoke.reference._replace(outputs=outputs))


CORRUPTIONS = (
    (lambda r: shifted(r, 0.1), "That limit is right"),
    (lambda r: shifted(r, 0.1), "has no bias"),
    (lambda r: r._replace(continuity=1.001 * r.continuity), "continuity equation"),
    (lambda r: r._replace(first_kernel=1.1 * r.first_kernel), "integral over N"),
    (
        lambda r: r._replace(
            reference=r.reference._replace(
                kernels=np.repeat(r.reference.kernels[:, :, :1], 7, axis=2)
            )
        ),
        "changed by a tenth",
    ),
)


@pytest.mark.parametrize(("corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_refuted(smoke, verdict, corrupt, words):
    assert verdict(words, corrupt(smoke)) == Verdict.REFUTED


def test_the_push_forward_would_be_seen_to_hold(smoke, verdict):
    assert verdict("push-forward", smoke._replace(pushed=smoke.speed)) == Verdict.SUPPORTED


RATES = (
    ("outputs", ERF, 1.0, "At the start the output"),
    ("outputs", ERF, 1.0, "erf networks converge"),
    ("kernels", ERF, 0.5, "does not depend on the width"),
    ("kernels", NTK, 1.0, "as 1/n"),
)


@pytest.mark.parametrize(("field", "case", "power", "words"), RATES)
def test_another_rate_is_not_supported(smoke, verdict, field, case, power, words):
    """The judges themselves: measurements that fall faster, or grow, are not taken for the rate."""
    widths = np.array(experiment.PRESETS["smoke"].widths, float)
    if field == "kernels":  # only the last kernel moves more
        kernels = np.array(smoke.networks.kernels)
        first = kernels[:, :, case, :1]
        factors = (widths**power).reshape(1, -1, 1, 1, 1)
        kernels[:, :, case] = first + factors * (kernels[:, :, case] - first)
        networks = smoke.networks._replace(kernels=kernels)
    else:
        networks = scaled(smoke.networks, field, case, widths**power)
    assert verdict(words, smoke._replace(networks=networks)) != Verdict.SUPPORTED


def test_the_figure_is_drawn(smoke):
    figure = experiment.plot(smoke, experiment.PRESETS["smoke"])
    assert len(figure.axes) == 2


def test_a_reference_must_be_wider():
    with pytest.raises(ValueError, match="at least four times 2048, got 4096"):
        Config(reference_width=4096)
