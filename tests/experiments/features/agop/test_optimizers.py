import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import optimizers as experiment
from theorylab.experiments.features.agop._polynomials import PolynomialTraining


def changed(result, **fields):
    return result._replace(runs=result.runs._replace(**fields))


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_alignment_that_grows_with_the_test_loss_is_refuted(smoke, verdict):
    """Corrupted: alignment and misalignment with the opposite order."""
    wrong = changed(smoke, alignment=-smoke.runs.alignment)
    wrong = wrong._replace(misalignment=-smoke.misalignment)
    for words in ("oppositely, seed by seed", "Means over seeds", "nearly on a line"):
        assert verdict(words, wrong) == Verdict.REFUTED
    assert verdict("that do not matter", wrong) == Verdict.REFUTED


def test_optimisers_that_do_not_differ_or_do_not_fit_are_refuted(smoke, verdict):
    assert (
        verdict("10 % below", changed(smoke, test=np.ones_like(smoke.runs.test))) == Verdict.REFUTED
    )
    unfitted = changed(smoke, reached=np.zeros_like(smoke.runs.reached))
    assert verdict("Most runs", unfitted) == Verdict.REFUTED


def test_a_rank_that_is_learned_and_ranked_is_told(smoke, verdict):
    """Corrupted: half the test loss; alignment that falls, or rises, with it in each seed."""
    learned = smoke._replace(other_test=smoke.other_test / 2)
    assert verdict("rank 3 is not learned", learned) == Verdict.REFUTED
    test = smoke.other_test
    for sign, expected in ((-1, Verdict.SUPPORTED), (1, Verdict.REFUTED)):
        ranked = smoke._replace(other_alignment=sign * test)
        assert verdict("of rank 3, too", ranked) == expected


def test_inputs_without_use_are_those_that_the_truth_does_not_see():
    """Oracle: the cosine of a whole matrix with a diagonal, for rank 4 from the fifth input on."""
    root = np.random.default_rng(0).normal(size=(10, 10))
    gram, truth = root @ root.T, np.diag([4.0, 3, 2, 1, 0, 0, 0, 0, 0, 0])
    elsewhere = np.diag([0.0] * 4 + [1.0] * 6)

    def cosine(other):
        return np.sum(gram * other) / np.linalg.norm(gram) / np.linalg.norm(other)

    learned = PolynomialTraining(*[jnp.zeros(())] * len(PolynomialTraining._fields))
    measured = learned._replace(
        corner=jnp.asarray(gram)[None], alignment=jnp.array([cosine(truth)])
    )
    learned = jax.tree.map(np.asarray, measured)
    found = experiment._elsewhere(learned, 4)
    np.testing.assert_allclose(found, [cosine(elsewhere)], rtol=1e-6)
    assert np.isnan(experiment._elsewhere(learned, 3)).all()


def test_each_rank_has_the_rates_of_the_table():
    """Oracle: Table C.1."""
    assert experiment.TABLE[2] == (2.0, 2.0, 2.0, 0.1, 0.01, 0.01, 2.0)
    assert experiment.TABLE[4] == (1.0, 1.0, 1.0, 0.005, 0.001, 0.001, 1.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch_size": 601}, "batch_size must be at most 600, got 601"),
        ({"rank": 5}, "rank must be 2, 3 or 4, got 5"),
        ({"dimension": 5}, "dimension must be at least 10 for rank 3, got 5"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
