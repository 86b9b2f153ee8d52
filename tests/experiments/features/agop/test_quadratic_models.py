import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import quadratic_models as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def changed(result, **changes):
    """The same change of a measure in both models."""
    return type(result)(
        *(
            runs._replace(**{name: change(getattr(runs, name)) for name, change in changes.items()})
            for runs in result
        )
    )


def test_the_opposite_is_refuted(smoke, verdict):
    """Corrupted: numbers of raises exchanged, models exchanged, spikes where there are none."""
    wrong = changed(smoke, alignment=lambda values: values[..., ::-1])
    assert verdict("the features of the network", wrong) == Verdict.REFUTED
    assert verdict("features of the quadratic model: their", wrong) == Verdict.REFUTED
    exchanged = smoke._replace(network=smoke.quadratic, quadratic=smoke.network)
    assert verdict("are better than those", exchanged) == Verdict.REFUTED
    restless = changed(smoke, spikes=np.ones_like)
    assert verdict("neither model", restless) == Verdict.REFUTED
    lost = changed(smoke, reached=np.zeros_like)
    assert verdict("same training loss", lost) == Verdict.REFUTED
    calm = changed(smoke, spikes=np.zeros_like)
    assert verdict("The quadratic model catapults", calm) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="raises must begin with 0"):
        experiment.Config(raises=(1, 2))
