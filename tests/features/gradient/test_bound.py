"""The main bound: numbers by hand, homogeneity, what the tuned step size balances."""

import dataclasses
import math

import pytest

from theorylab.features.gradient import (
    Budget,
    TheoremConstants,
    hyper_parameters,
    main_bound,
    needed_width,
    requirements,
    untuned_terms,
)

CONSTANTS = TheoremConstants(
    num_neurons=3,
    entry_bound=0.5,
    norm_bound=0.9,
    bias_bound=2.0,
    mean_norm=1.5,
    mean_square=3.0,
    largest_norm=4.0,
    probability=0.1,
    opening=0.02,
    gradient_norm=0.4,
    slope=0.7,
)
BUDGET = Budget(dimension=20, width=1000, num_steps=50, num_samples=8000, accuracy=0.2)


def scaled(factor):
    """The same problem with inputs in other units: weights shrink as inputs grow."""
    lengths = ("bias_bound", "mean_norm", "largest_norm", "gradient_norm")
    changes = {name: factor * getattr(CONSTANTS, name) for name in lengths}
    changes |= {name: getattr(CONSTANTS, name) / factor for name in ("entry_bound", "norm_bound")}
    return dataclasses.replace(CONSTANTS, mean_square=factor**2 * 3.0, **changes)


def test_the_bound_is_the_formula_by_hand():
    bound = main_bound(CONSTANTS, BUDGET, optimum=0.03)
    noise = math.sqrt(3.0) / (0.4 * 0.7 * 20)
    assert bound.directions == pytest.approx(3 * 0.5 * 1.5 * math.sqrt(0.04 + noise))
    assert bound.total == pytest.approx(0.23 + bound.directions)
    assert bound.vacuous
    assert "says nothing" in str(bound)


def test_the_needed_width_is_the_formula_by_hand():
    first = (3 * 0.5 * 1.5 * math.sqrt(5.0)) ** 4 / (0.1 * 0.2**4)
    rest = 1 / math.sqrt(0.05) + math.log(60) ** 2 / 0.1
    assert needed_width(CONSTANTS, BUDGET) == pytest.approx(first + rest)


def test_steps_and_samples_needed_are_the_formulas_by_hand():
    steps, samples = requirements(CONSTANTS, BUDGET)[1:3]
    root, b = 100**0.25, CONSTANTS.bias
    assert b == pytest.approx(0.4**0.25 * 0.9 * 2**0.75 / math.sqrt(1.5))
    log = math.log(1000)
    expected = math.sqrt(3) * 0.9 * 2 * 1.5 / root + 1000 * b
    expected *= math.sqrt(log) / math.sqrt(0.8) + 1 / (1.5 * root)
    assert steps.needed == pytest.approx(expected / 0.2)
    first = 1000 * 4 * 0.81 * math.sqrt(2) * 10 * log / (0.2 * 1.5 * math.sqrt(0.4))
    rest = 4 / math.sqrt(3) + math.log(50 * 1000 / 0.005) + 3.5 * math.sqrt(3) / 0.7
    assert samples.needed == pytest.approx(first**3 + rest**3)


def test_violated_requirements_are_named():
    assert main_bound(CONSTANTS, BUDGET, 0.0).violated == ("width m", "steps T", "samples n")
    wide = dataclasses.replace(BUDGET, width=10**9, dimension=20)
    assert "width m" not in main_bound(CONSTANTS, wide, 0.0).violated
    assert "dimension d" in main_bound(CONSTANTS, wide, 0.0).violated


def test_units_of_the_inputs_do_not_matter_to_width_and_directions():
    """Both are pure numbers; noise is √B_x2/B_G, another one."""
    for factor in (0.1, 10.0):
        assert needed_width(scaled(factor), BUDGET) == pytest.approx(
            needed_width(CONSTANTS, BUDGET)
        )
        assert main_bound(scaled(factor), BUDGET, 0.0).total == pytest.approx(
            main_bound(CONSTANTS, BUDGET, 0.0).total
        )


def test_the_chosen_step_size_makes_the_drift_the_accuracy():
    """And the chosen bias makes the regret half of the width's term, in any units."""
    for constants in (CONSTANTS, scaled(3.0)):
        chosen = hyper_parameters(constants, BUDGET)
        budget = dataclasses.replace(BUDGET, num_steps=max(1, round(chosen.num_steps)))
        rate = chosen.rate * chosen.num_steps / budget.num_steps  # η T stays, T is whole
        terms = untuned_terms(constants, budget, rate)
        assert terms.regret == pytest.approx(terms.width / 2)
        assert terms.drift == pytest.approx(BUDGET.accuracy, rel=0.01)
        assert terms.opening == pytest.approx(constants.scale * 0.2)


def test_the_first_step_and_the_outputs_are_those_of_the_theorem():
    chosen = hyper_parameters(CONSTANTS, BUDGET, weight_scale=0.3)
    reach = 0.7 * (1.5 * 0.3 * math.sqrt(20) + chosen.bias)
    assert chosen.first_rate == pytest.approx(chosen.rate * min(1, chosen.bias) / reach)
    wide = 0.7 * chosen.first_rate * 1.5 * math.sqrt(0.8)
    assert chosen.output_scale == pytest.approx(chosen.bias * 100**0.25 / wide)


def test_bad_constants_are_refused():
    with pytest.raises(ValueError, match="gradient_norm must be positive, got 0"):
        dataclasses.replace(CONSTANTS, gradient_norm=0.0)
    with pytest.raises(ValueError, match="probability must be at most 1, got 2"):
        dataclasses.replace(CONSTANTS, probability=2.0)
    with pytest.raises(ValueError, match=r"accuracy must be in \(0, 1\), got 1"):
        dataclasses.replace(BUDGET, accuracy=1.0)
    with pytest.raises(ValueError, match="width must be at least 2, got 1"):
        dataclasses.replace(BUDGET, width=1)
