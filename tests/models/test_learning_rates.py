import jax
import pytest

from theorylab.models import (
    Dense,
    LayerNorm,
    MuP,
    Serial,
    mlp,
    network,
)


def test_a_model_gives_its_factors_in_the_structure_of_its_parameters():
    """Oracle: MuP's learning rates by hand; also for parameters stacked over seeds."""
    model = network(mlp([8, 4]), (3,), MuP(), bias="zero")
    expected = (
        {"bias": 8.0, "weight": 8.0},
        (),
        {"bias": 4.0, "weight": 1.0},
        (),
        {"bias": 1.0, "weight": 4.0},
    )
    keys = jax.random.split(jax.random.key(0), 2)
    assert model.learning_rates(jax.eval_shape(jax.vmap(model.init), keys)) == expected
    with pytest.raises(ValueError):
        model.learning_rates(({"weight": 1.0},))


def test_gains_on_the_inputs_learn_as_at_width_one():
    """Their number does not grow with the width, so no factor n; behind a wide layer it does."""
    norm = LayerNorm(affine=True)
    model = network(Serial(norm, Dense(8), norm, Dense(1)), (3,), MuP())
    factors = model.learning_rates(jax.eval_shape(model.init, jax.random.key(0)))
    assert factors[0] == {"gain": 1.0, "offset": 1.0}
    assert factors[2] == {"gain": 8.0, "offset": 8.0}
