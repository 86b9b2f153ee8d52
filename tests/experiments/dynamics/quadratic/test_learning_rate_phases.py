import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import learning_rate_phases as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


def bent(travel):
    """Distances and curvatures with a wrong dependence on the width."""
    factor = np.array(experiment.PRESETS["smoke"].widths) ** 0.2
    return travel._replace(
        distance=travel.distance * factor, length=travel.length / factor, curvature=factor + 1
    )


def wrong_curvature(travel):
    return travel._replace(curvature=np.full_like(travel.curvature, 0.9))


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("quadratic", lambda r: bent(r.quadratic), "does not depend on the width"),
    ("network", lambda r: bent(r.network), "So do ReLU"),
    ("radius", lambda r: 1.05 * r.radius, "the linear model: the widest"),
    ("network", lambda r: wrong_curvature(r.network), "nearly constant"),
    ("quadratic", lambda r: wrong_curvature(r.quadratic), "below 2/η"),
    ("network", lambda r: bent(bent(bent(r.network))), "the longer"),
    ("quadratic", lambda r: bent(r.quadratic), "2.5 and 3 together"),
    ("network", lambda r: bent(r.network), "ReLU networks travel"),
    ("map_limit", lambda r: r.map_limit * np.linspace(1, 0.5, 6), "does not shrink"),
    ("quadratic_limit", lambda r: 0.9 * r.quadratic_limit, "up to 2η_crit too"),
    ("image_limit", lambda r: r.linear_limit, "survive more"),
    ("linear_limit", lambda r: 2 * r.linear_limit, "no such interval"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match=r"num_seeds must be .* at least 1, got 0"):
        experiment.Config(num_seeds=0)
    with pytest.raises(ValueError, match=r"edge_width must be .* at least 1000, got 10"):
        experiment.Config(edge_width=10)
