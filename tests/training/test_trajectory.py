"""Recorded steps and recorded divergence."""

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.training import Trajectory, every, logarithmic
from theorylab.training.trajectory import run_and_record


def count(steps, measure=lambda params: params) -> Trajectory:
    """A run whose state is the number of steps that it has taken."""
    return run_and_record(
        lambda state, step: state + 1.0, jnp.array(0.0), steps, measure, lambda state: state
    )


@pytest.mark.parametrize(
    "steps", [[0], [5], [0, 1, 2], [3, 4, 10], np.array([0, 7]), jnp.arange(4)]
)
def test_measurements_are_taken_after_the_chosen_numbers_of_steps(steps):
    """Oracle: a state that counts."""
    trajectory = count(steps)
    np.testing.assert_array_equal(trajectory.records, np.asarray(steps))
    np.testing.assert_array_equal(trajectory.steps, np.asarray(steps))
    assert trajectory.params == steps[-1]
    assert not trajectory.diverged
    assert trajectory.diverged_at == -1


def test_advance_is_told_the_number_of_the_step():
    """Oracle: 0 + 1 + ... + 9 = 45."""
    sums = run_and_record(lambda s, step: s + step, jnp.array(0), [3, 10], lambda s: s, lambda s: s)
    np.testing.assert_array_equal(sums.records, [3, 45])


def test_records_may_be_any_tree():
    """Oracle: the same counter, in a dictionary, with whole numbers and truth values."""
    measure = lambda p: {"half": p / 2, "tree": (p.astype(int), p > 1)}  # noqa: E731
    records = count([0, 1, 2], measure).records
    np.testing.assert_array_equal(records["half"], [0, 0.5, 1])
    np.testing.assert_array_equal(records["tree"][0], [0, 1, 2])
    np.testing.assert_array_equal(records["tree"][1], [False, False, True])


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_divergence_is_recorded_where_it_first_shows(bad):
    """Oracle: a measurement that breaks at step 4, and mends."""
    trajectory = count(every(2, 8), lambda p: jnp.where(p == 4, bad, p))
    assert trajectory.diverged
    assert trajectory.diverged_at == 4
    np.testing.assert_array_equal(trajectory.records, [0, 2, bad, 6, 8])


def test_divergence_of_parameters_counts_even_if_nothing_shows_in_the_records():
    double = lambda state, step: state * 1e200  # noqa: E731
    run = run_and_record(double, jnp.array(1.0), [0, 1, 2, 3], lambda p: p < 1, lambda p: p)
    assert run.diverged
    assert run.diverged_at == 2


def test_chosen_steps():
    """Oracle: by hand."""
    np.testing.assert_array_equal(every(3, 9), [0, 3, 6, 9])
    np.testing.assert_array_equal(every(4, 9), [0, 4, 8, 9])
    np.testing.assert_array_equal(every(10, 9), [0, 9])
    np.testing.assert_array_equal(every(1, 0), [0])
    np.testing.assert_array_equal(logarithmic(8, 4), [0, 1, 2, 4, 8])
    np.testing.assert_array_equal(logarithmic(3, 50), [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "non-empty"),
        ([0.0, 1.0], "integers"),
        ([[0, 1]], "non-empty list"),
        ([2, 2], r"increasing and not negative, got \[2, 2\]"),
        ([3, 1], "increasing"),
        ([-1, 1], "not negative"),
    ],
)
@pytest.mark.usefixtures("untyped")
def test_bad_steps_are_refused(steps, message):
    with pytest.raises(ValueError, match=message):
        count(steps)


def test_bad_schedules_are_refused():
    with pytest.raises(ValueError, match="num_steps >= 1 and total >= 0, got 0 and 5"):
        every(0, 5)
    with pytest.raises(ValueError, match="total >= 1 and count >= 2, got 0 and 5"):
        logarithmic(0, 5)
