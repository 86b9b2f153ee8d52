"""Which values a field takes, and which settings a sweep has."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import qmc

from theorylab.experiments.entry import Field
from theorylab.fields import Count, Fraction, Positive, Several
from theorylab.lab.failure import Refused
from theorylab.lab.requests import python_value
from theorylab.lab.store import Store
from theorylab.lab.sweeps.axes import axis, points
from theorylab.lab.sweeps.names import names
from theorylab.lab.sweeps.plan import Asked, fixed_values, jsonable, plan, recall, remember

FRAGILE = str(Path(__file__).parents[1] / "toylab/fragile.py")
WIDTH, RATE = Field("width", Count, 1), Field("rate", Positive, 1.0)
SHARE, RATES = Field("share", Fraction, 0.5), Field("rates", Several[Positive], (1.0,))


def values(field, given):
    return axis(field, given, python_value).values


@pytest.mark.parametrize(
    ("field", "given", "expected"),
    [
        (WIDTH, "64,128,256", (64, 128, 256)),
        (WIDTH, "64, 64,128,", (64, 128)),
        (WIDTH, (1, 2), (1, 2)),
        (WIDTH, range(1, 4), (1, 2, 3)),
        (WIDTH, np.array([4, 5]), (4, 5)),
        (WIDTH, 7, (7,)),
        (WIDTH, "log:1:1000:4", (1, 10, 100, 1000)),
        (WIDTH, "1:10:3", (1, 4, 7, 10)),
        (WIDTH, "1:9:3", (1, 4, 7)),
        (RATE, "0.1:0.5:0.1", (0.1, 0.2, 0.3, 0.4, 0.5)),
        (RATE, "1e-3", (0.001,)),
        (RATE, "log:1e-3:1:1", (0.001,)),
        (RATES, "1,3", ((1.0,), (3.0,))),
        (RATES, [[1, 2], 3], ((1.0, 2.0), (3.0,))),
    ],
)
def test_an_axis_has_the_values_that_it_says(field, given, expected):
    assert values(field, given) == expected


def test_a_log_range_grows_by_one_factor_and_has_its_ends():
    found = np.array(values(RATE, "log:1e-3:1:9"))
    np.testing.assert_allclose(found[1:] / found[:-1], 10 ** (3 / 8), rtol=1e-10)
    assert (found[0], found[-1], len(found)) == (1e-3, 1.0, 9)


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        (WIDTH, "0,64", "--width must be a whole number, at least 1, got 0."),
        (WIDTH, "64,x", "--width must be a whole number, at least 1, got 'x'."),
        (WIDTH, "1.5", "--width must be a whole number, at least 1, got '1.5'."),
        (RATE, "-1:1:0.5", "--rate must be a finite number, positive, got -1.0."),
        (RATE, "1:0:0.5", "--rate must rise in positive steps, got '1:0:0.5'."),
        (RATE, "0:1:0", "--rate must rise in positive steps, got '0:1:0'."),
        (RATE, "0:1e9:1e-9", "--rate must have at most 100000 values, got '0:1e9:1e-9'."),
        (RATE, "log:0:1:3", "--rate must rise from a positive LOW to HIGH, got 'log:0:1:3'."),
        (RATE, "log:1:2:0", "--rate: N must be a whole number from 1 to 100000, got"),
        (RATE, "log:1:2", "--rate must vary over values, LOW:HIGH:STEP, log:LOW:HIGH:N,"),
        (RATE, "1:2:nan", "--rate must vary over values,"),
        (RATE, "lag:1:2:3", "--rate must vary over values,"),
        (RATE, "", "--rate must vary over one value or more, got none."),
        (RATE, [], "--rate must vary over one value or more, got none."),
        (SHARE, "sobol:0:2:4", "--share must be a finite number, from 0 to 1, got 2.0."),
        (SHARE, "random:1:0:4", "--share must rise from LOW to HIGH, got 'random:1:0:4'."),
        (Field("name", str, "x"), "1:2:3", "--name is text, and has no range, got '1:2:3'."),
    ],
)
def test_what_is_no_axis_is_refused_on_one_line(field, given, words):
    with pytest.raises(Refused) as caught:
        axis(field, given, python_value)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_lists_are_multiplied_and_sobol_axes_are_one_sequence():
    """Oracle: itertools.product; SciPy's Sobol points in the plane, scaled."""
    texts = [(WIDTH, "1,2"), (RATE, "sobol:1:3:6"), (SHARE, "sobol:0:0.5:6")]
    found = points([axis(field, text, python_value) for field, text in texts], seed=3)
    plane = qmc.Sobol(2, rng=3).random_base2(3)[:6] * [2, 0.5] + [1, 0]
    expected = [(width, *row) for width, row in itertools.product((1, 2), plane)]
    np.testing.assert_allclose([list(point.values()) for point in found], expected, rtol=1e-15)


def test_random_axes_stay_inside_and_follow_the_seed():
    axes = [axis(RATE, "random:2:3:50", python_value), axis(WIDTH, "random:1:9:50", python_value)]
    one, same, other = (points(axes, seed) for seed in (0, 0, 1))
    assert one == same != other
    assert all(2 <= point["rate"] <= 3 and point["width"] in range(1, 10) for point in one)


def test_axes_that_are_drawn_together_have_one_length_and_sweeps_a_size():
    uneven = [axis(RATE, "random:1:2:3", python_value), axis(SHARE, "random:0:1:4", python_value)]
    with pytest.raises(Refused, match="same number of values, got --rate 3, --share 4"):
        points(uneven)
    large = [axis(WIDTH, "1:1000:1", python_value), axis(RATE, "1:1000:1", python_value)]
    with pytest.raises(Refused, match="at most 100000 settings, got 1000000"):
        points(large)


def asked(over=None, seeds=None, **fixed) -> Asked:
    return Asked(FRAGILE, "default", fixed, jsonable(over or {}), seeds)


def planned(tree, over=None, seeds=None, **fixed):
    return plan(tree, asked(over, seeds, **fixed), print)


def test_a_plan_is_a_set_of_keys_and_duplicates_are_merged(tree):
    """Whole-numbered draws fall on the same value: a setting is there once."""
    made = planned(tree, {"width": "random:1:3:40", "level": (1, 1.0, 2)})
    assert len(made) == len(set(made.settings)) == 6
    assert {str(each.config["width"]) for each in made.settings.values()} == {"1", "2", "3"}
    again = planned(tree, {"width": "random:1:3:40", "level": (1, 1.0, 2)})
    assert list(again.settings) == list(made.settings)


def test_seeds_count_from_the_fixed_one(tree):
    made = planned(tree, seeds=3, seed=5)
    assert [request.config["seed"] for request in made.settings.values()] == [5, 6, 7]


@pytest.mark.parametrize(
    ("over", "seeds", "fixed", "words"),
    [
        ({"wdth": "1"}, None, {}, "own/fragile has no field --wdth. Did you mean --width?"),
        ({"width": "1"}, None, {"width": 2}, "--width must be fixed or varied, got both."),
        ({"seed": "1"}, 2, {}, "--seed must be varied by --over or by --seeds, got both."),
        ({}, None, {}, "a sweep needs a field that varies, or seeds, got neither."),
        ({}, 0, {}, "seeds must be a whole number from 1 to 100000, got 0."),
        ({"width": "0"}, None, {}, "--width must be a whole number, at least 1, got 0."),
        ({"width": {"a": 1}}, None, {}, "--width must be a whole number, at least 1, got {'a': 1}"),
        ({"width": [[1]]}, None, {}, "--width must be a whole number, at least 1, got [1]."),
    ],
)
def test_a_wrong_request_is_refused_on_one_line(tree, over, seeds, fixed, words):
    with pytest.raises(Refused) as caught:
        planned(tree, over, seeds, **fixed)
    assert str(caught.value).startswith(words)


def test_fixed_values_are_those_of_the_field(tree):
    found = planned(tree, seeds=1).found
    assert fixed_values(found, "default", {"level": 2}) == {"level": 2.0}
    with pytest.raises(Refused, match="--level must be a finite number, positive"):
        fixed_values(found, "default", {"level": -2})


def test_a_sweep_is_remembered_with_its_keys(tree, tmp_path):
    store, made = Store(tmp_path), planned(tree, {"width": "1,2", "level": [1.0]}, 2)
    remember(store, made, "mine")
    known = recall(store, "mine")
    assert (known.asked, known.keys) == (made.asked, tuple(made.settings))
    assert plan(tree, known.asked, print).settings.keys() == made.settings.keys()
    assert names(tmp_path) == ["mine"]
    assert store.folders() == []


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "asked": {"x": 1}}', "null"]
)
def test_a_damaged_plan_is_refused(tmp_path, text):
    (tmp_path / ".sweeps").mkdir()
    (tmp_path / ".sweeps/mine.json").write_text(text)
    with pytest.raises(Refused, match="the sweep 'mine' cannot be read"):
        recall(Store(tmp_path), "mine")


@pytest.mark.parametrize("name", ["../mine", "", ".mine", "a/b", "x" * 101])
def test_a_name_stays_inside_the_store(tmp_path, name):
    with pytest.raises(Refused, match="the name of a sweep must be"):
        recall(Store(tmp_path), name)
    with pytest.raises(Refused, match="no sweep 'yours'"):
        recall(Store(tmp_path), "yours")
