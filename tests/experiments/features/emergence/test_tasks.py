"""Tasks of the comparison: what theory takes from a law, and which law is drawn."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import independent_patterns, parity_mixture
from theorylab.data.dictionary import parity_counts
from theorylab.experiments.features.emergence._tasks import Setting, draw_task, theory_of

SETTING = Setting(num_pairs=4, num_samples=3000, num_test=100, num_steps=10, batch_size=50)


@dataclass(frozen=True)
class Wide(Setting):
    """In twelve dimensions."""

    dimension: int = 12


class TwoRecords(Setting):
    """Scored in the middle and at the end."""

    num_records = 2


def test_theory_takes_its_constants_from_the_law():
    """Oracle: γ = ¼, p_o = ½ of the mixture; unequal classes have 1/(2 Pr[y]), a smaller step."""
    mixture = parity_mixture(9, 3)
    plain = theory_of(mixture, SETTING)
    assert (plain.structure, plain.other, plain.class_weights) == (0.25, 0.5, (1.0, 1.0))
    weighed = theory_of(mixture.resampled(0.8), SETTING, weigh=True)
    np.testing.assert_allclose(weighed.class_weights, (0.625, 2.5))
    scale = mixture.resampled(0.8).scale()
    np.testing.assert_allclose(weighed.stages[0].learning_rate, 0.2 * 0.25**2 * scale / (3 * 4**3))


def test_noise_in_all_dimensions_is_part_of_the_scale():
    """Oracle: σ_a = σ̃²/(γk²) with σ̃² = 9/4 + 12 σ_ζ²."""
    noisy = theory_of(parity_mixture(9, 3), Wide(), noise=0.5)
    np.testing.assert_allclose(noisy.scales.outer, (9 / 4 + 12 * 0.25) / (0.25 * 9))


def test_the_chosen_law_is_drawn():
    """Oracle: E[yφ] = γ/σ̃, ¼ of σ̃ for the mixture and 0 for fair coins; 5 standard errors."""
    laws = (parity_mixture(9, 3), independent_patterns(9, 3, parity_counts(3)))
    theory = theory_of(laws[0], SETTING)
    for which, structure in ((0, 0.25), (1, 0.0)):
        task = draw_task(jax.random.key(0), laws, jnp.array(which), theory, SETTING, dimension=12)
        assert task.train.x.shape == (3000, 9)
        assert (task.test.num_samples, task.outside.shape) == (100, (4, 3))
        signal = np.asarray(task.train.y * task.train.x).mean(axis=0)[:3] * laws[0].scale()
        np.testing.assert_allclose(signal, structure, atol=5 * 0.5 / np.sqrt(3000))


def test_records_end_with_the_last_step():
    assert SETTING.steps.tolist() == [3, 4, 5, 6, 8, 9, 10]
    assert Setting(num_steps=600).steps[-1] == 600
    assert TwoRecords(num_steps=600).steps.tolist() == [300, 600]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_pairs": 0}, "num_pairs must be a whole number, at least 1"),
        ({"num_steps": 2}, "num_steps must be a whole number, at least 3"),
        ({"batch_size": 10**6}, "batch_size must be at most num_samples = 50000"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Setting(**fields)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ((13, 3), "dimension must be at least num_patterns = 13, got 12"),
        ((3, 5), "num_relevant must be at most num_patterns = 3 and 1000, got 5"),
        ((10**6, 1001), "num_relevant must be at most num_patterns = 1000000 and 1000"),
    ],
)
def test_laws_that_do_not_fit_are_refused(law, message):
    with pytest.raises(ValueError, match=message):
        Wide().check(*law)
