"""The trained transformer: what it may see, and that it learns in context and not by heart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import (
    FunctionLaw,
    InContextRecipe,
    draw_sequences,
    in_context_model,
    in_context_predictions,
    learn_in_context,
    regression_prompts,
)
from theorylab.incontext.trained import interleave, prompt_model, prompt_predictions

MODEL = in_context_model(1, 6, width=16, depth=2, num_heads=2)
LAW = FunctionLaw(dimension=1, noise=0.1)
DRAWN = draw_sequences(jax.random.key(1), LAW, 2000, 6)
predictions = jax.jit(in_context_predictions, static_argnums=0)


@pytest.fixture(scope="module")
def learned():
    recipe = InContextRecipe(300, batch_size=64, num_examples=6, learning_rate=1e-2)
    return jax.jit(lambda key: learn_in_context(key, MODEL, LAW, recipe))(jax.random.key(0))


def test_places_alternate():
    x, y = jnp.array([[[1.0, 2.0], [3.0, 4.0]]]), jnp.array([[5.0, 6.0]])
    expected = [[1, 2, 0], [1, 2, 5], [3, 4, 0], [3, 4, 6]]
    np.testing.assert_array_equal(interleave(x, y)[0], expected)


def test_a_prediction_does_not_see_its_own_label(learned):
    before = predictions(MODEL, learned.params, DRAWN.x, DRAWN.y)
    changed = DRAWN.y.at[:, 2].add(1.0)
    after = predictions(MODEL, learned.params, DRAWN.x, changed)
    np.testing.assert_allclose(before[:, :3], after[:, :3], atol=1e-12)
    assert jnp.abs(before[:, 3] - after[:, 3]).max() > 1e-3


def test_errors_fall_with_the_examples_of_new_tasks(learned):
    """Without context nothing is known of f; with five examples of slope w, most of it is."""
    predicted = predictions(MODEL, learned.params, DRAWN.x, DRAWN.y)
    errors = np.mean(np.square(predicted - DRAWN.clean), axis=0)
    assert errors[0] > 0.8
    assert errors[-1] < 0.4 * errors[0]
    assert learned.losses[-50:].mean() < 0.7 * learned.losses[:20].mean()


def test_a_prompt_has_no_order_and_its_target_is_not_seen():
    """Oracle: a permutation of the examples, and another target, change nothing; a label does."""
    model = prompt_model(2, 5, width=8, depth=1, num_heads=2)
    params = model.init(jax.random.key(0))
    prompts = regression_prompts(jax.random.key(1), 3, 5, jnp.eye(2))
    said = prompt_predictions(model, params, prompts)
    same = prompts._replace(x=prompts.x[:, ::-1], y=prompts.y[:, ::-1], target=prompts.target + 1)
    np.testing.assert_allclose(prompt_predictions(model, params, same), said, atol=1e-12)
    turned = prompt_predictions(model, params, prompts._replace(y=-prompts.y))
    assert jnp.abs(turned - said).max() > 1e-3


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"must read 8 \+ 1 numbers at 12 places, got 2 and 12"):
        learn_in_context(jax.random.key(0), MODEL, FunctionLaw(), InContextRecipe(num_examples=6))
    with pytest.raises(ValueError, match="num_steps must be at least 2, got 1"):
        InContextRecipe(num_steps=1)
    with pytest.raises(ValueError, match="must be at least 1, got 0 and 5"):
        in_context_model(0, 5)
    with pytest.raises(ValueError, match="must be at least 1, got 2 and 0"):
        prompt_model(2, 0)
