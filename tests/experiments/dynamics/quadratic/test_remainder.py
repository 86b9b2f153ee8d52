import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import remainder as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


def flipped(found):
    """Remainders of the other sign, a loss that leaves the top direction, a kernel that moves."""
    moved = found.top_eigenvalue * np.linspace(1, 0.5, found.loss.shape[-1])
    return found._replace(
        output=-found.output, kernel=-found.kernel, top_loss=0.1 * found.loss, top_eigenvalue=moved
    )


# One wrong number in what was measured, and the claims that look at it.
CORRUPTIONS = (
    ("quadratic", lambda r: flipped(r.quadratic), "Quadratic model: when"),
    ("quadratic", lambda r: flipped(r.quadratic), "Quadratic model: both"),
    ("quadratic", lambda r: flipped(r.quadratic), "Quadratic model: at"),
    ("quadratic", lambda r: flipped(r.quadratic), "stays as well"),
    ("network", lambda r: flipped(r.network), "Network: when"),
    ("network", lambda r: flipped(r.network), "Network: both"),
    ("network", lambda r: flipped(r.network), "Network: at"),
    ("network", lambda r: flipped(r.network), "stays, to one in ten"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match=r"width must be .* at least 1, got 0"):
        experiment.Config(width=0)
    with pytest.raises(ValueError, match=r"ratio must be between 1 and 2, got 2\.5"):
        experiment.Config(ratio=2.5)
