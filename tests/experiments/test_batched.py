"""What an experiment calls batched costs no compilation: a sweep over it compiles once."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import pytest

from theorylab.experiments.tree import EXPERIMENTS
from theorylab.lab.conduct import precision

# Small settings, and other values of all that is batched.
SETTINGS = {
    "bias/diagonal_network": (
        {"num_samples": 2, "dimension": 4, "sparsity": 1, "num_seeds": 2, "alphas": (1.0, 0.3)},
        {"alphas": (2.0, 0.1), "seed": 7},
    ),
    "dynamics/catapult": (
        {"width": 20, "num_steps": 10, "widths": (20, 40), "num_seeds": 2, "ratios": (1.0, 3.0)},
        {"ratios": (0.5, 2.5), "seed": 7},
    ),
    "dynamics/edge_of_stability": (
        {
            "learning_rates": (0.1,),
            "duration": 10.0,
            "control_duration": 2.0,
            "num_records": 30,
            "num_images": 10,
            "image_widths": (2,),
            "image_steps": 30,
            "num_lanczos": 2,
            "num_seeds": 1,
        },
        {
            "learning_rates": (0.05,),
            "duration": 20.0,
            "control_duration": 1.0,
            "image_learning_rate": 0.1,
            "image_steps": 60,
            "seed": 7,
        },
    ),
    "dynamics/quadratic/phase_diagram": (
        {"num_settings": 3, "resolution": 2},
        {"seed": 7},
    ),
}


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Hear of every program that is compiled, or read where compiled ones are kept."""
    heard: list[str] = []

    def hear(event: str, duration_secs: float, **_: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            heard.append(event)

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        yield heard
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)


def test_every_experiment_that_says_so_is_tried():
    said = {entry.name: entry.batched for entry in EXPERIMENTS.entries() if entry.batched}
    assert {name: set(batched) for name, batched in said.items()} == {
        name: set(other) for name, (_, other) in SETTINGS.items()
    }


@pytest.mark.parametrize("name", SETTINGS)
def test_other_values_of_what_is_batched_compile_nothing(name):
    experiment, (first, other) = EXPERIMENTS.load(name), SETTINGS[name]
    with precision(EXPERIMENTS.entry(name).precision):
        with compilations() as compiled:
            experiment.run(experiment.Config(**first))
        assert compiled  # the count itself can count
        with compilations() as compiled:
            experiment.run(experiment.Config(**first | other))
        assert compiled == []
