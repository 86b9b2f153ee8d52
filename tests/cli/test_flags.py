"""From text to values: every type, every way to be wrong."""

import dataclasses
import math
from typing import Literal

import pytest

from theorylab.cli.commands import shown
from theorylab.cli.flags import value_of
from theorylab.cli.usage import Usage
from theorylab.experiments.entry import Field
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.lab import Refused
from theorylab.lab.conduct import needed_bytes
from theorylab.lab.requests import Found, request

KINDS = {"int": int, "float": float, "bool": bool, "str": str}
KINDS |= {"Literal['relu', 'erf']": Literal["relu", "erf"]}
KINDS |= {"tuple[int, ...]": tuple[int, ...], "tuple[float, ...]": tuple[float, ...]}


def field(kind: str) -> Field:
    return Field("some_field", KINDS[kind], 0)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "12", 12),
        ("int", "-3", -3),
        ("int", "1_000", 1000),
        ("float", "3", 3.0),
        ("float", "-1e-3", -0.001),
        ("bool", "true", True),
        ("bool", "False", False),
        ("str", "any text", "any text"),
        ("str", "", ""),
        ("Literal['relu', 'erf']", "erf", "erf"),
        ("tuple[int, ...]", "1,2,3", (1, 2, 3)),
        ("tuple[int, ...]", "(1, 2,)", (1, 2)),
        ("tuple[float, ...]", "1, 2.5", (1.0, 2.5)),
        ("tuple[float, ...]", "7", (7.0,)),
        ("tuple[float, ...]", "()", ()),
    ],
)
def test_text_becomes_a_value_of_the_fields_type(kind, text, value):
    read = value_of(field(kind), text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("int", "1.5", "--some-field must be a whole number, got '1.5'"),
        ("int", "", "must be a whole number, got ''"),
        ("int", "1e3", "must be a whole number"),
        ("int", str(2**63), "must be below 2³¹ in size"),
        ("float", "many", "must be a finite number, got 'many'"),
        ("float", "nan", "must be a finite number, got nan"),
        ("float", "-inf", "must be a finite number, got -inf"),
        ("bool", "1", "must be true or false, got '1'"),
        ("Literal['relu', 'erf']", "tanh", "must be one of relu, erf, got 'tanh'"),
        (
            "tuple[int, ...]",
            "1,,2",
            "must be whole numbers, got [1, '', 2]. Commas separate them",
        ),
        ("tuple[int, ...]", "", "must be whole numbers"),
        ("tuple[float, ...]", "1;2", "must be finite numbers, got ['1;2']"),
        ("tuple[float, ...]", "1,inf", "must be finite numbers, got [1.0, inf]"),
    ],
)
def test_wrong_text_is_refused_with_what_must_hold(kind, text, message):
    with pytest.raises(Usage) as caught:
        value_of(field(kind), text)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_value_of_every_preset_can_be_typed(name):
    """Round trip: what is shown is what the command line takes."""
    entry = EXPERIMENTS.entry(name)
    for config in entry.presets.values():
        texts = {field: shown(value) for field, value in config.items()}
        assert request(Found(entry, ""), "default", texts, value_of).values == config


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_no_experiment_takes_a_negative_size(name):
    """Everything that is counted in whole numbers, the seed aside, must be refused below zero."""
    config = EXPERIMENTS.load(name).Config()
    for field in EXPERIMENTS.entry(name).fields:
        wrong = {"int": -1, "tuple[int, ...]": (-1,)}.get(field.type)
        if wrong is not None and field.name != "seed":
            with pytest.raises(ValueError, match=rf"{field.name}.*-1"):
                dataclasses.replace(config, **{field.name: wrong})


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_a_default_fits_into_a_laptop_and_a_huge_size_into_no_machine(name):
    experiment, entry = EXPERIMENTS.load(name), EXPERIMENTS.entry(name)
    config = experiment.Config()
    assert 0 < needed_bytes(entry, experiment, config) < 4e9
    if not hasattr(experiment, "memory"):
        return  # the estimate is read off the program, and has tests of its own
    needed = []
    for field in entry.fields:
        if field.shape.kind is int and field.name != "seed":
            huge = (2**30, 2**31 - 1) if field.shape.several else 2**31 - 1
            try:
                changed = dataclasses.replace(config, **{field.name: huge})
                needed.append(experiment.memory(changed))
            except ValueError:  # outside the domain: there are no more digits than so many
                needed.append(math.inf)
    assert max(needed) > 20e9


def test_unknown_fields_and_presets(tree):
    entry = tree.entry("toys/dice")
    for preset, texts, message in (
        ("default", {"num_throw": "1"}, "no field --num-throw. Did you mean --num-throws?"),
        ("default", {"zzz": "1"}, "toys/dice has no field --zzz. It has --num-throws, --seed."),
        ("paper", {}, "the preset of toys/dice must be one of smoke, default, got 'paper'"),
    ):
        with pytest.raises(Refused) as caught:
            request(Found(entry, ""), preset, texts, value_of)
        assert message in str(caught.value)
    made = request(Found(entry, ""), "smoke", {"seed": "4"}, value_of)
    assert made.values == {"num_throws": 5, "seed": 4}
