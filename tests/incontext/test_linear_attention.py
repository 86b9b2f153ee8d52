import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import (
    LinearAttention,
    attend,
    head_predictions,
    predictions,
    regression_prompts,
)
from theorylab.incontext.linear_attention import full_attention, initial_factors, prompt_matrix


@pytest.fixture(scope="module")
def prompts():
    return regression_prompts(jax.random.key(0), 3, 5, jnp.eye(4), noise=0.3)


def test_the_full_form_equals_the_reduced_one(prompts):
    """Oracle: the matrix form of every prompt, with the query among its columns."""
    matrix = jax.random.normal(jax.random.key(1), (4, 4))
    for place, predicted in enumerate(predictions(matrix, prompts)):
        prompt = prompt_matrix(prompts.x[place], prompts.y[place], prompts.query[place])
        full = attend(full_attention(matrix), prompt, scale=5)
        np.testing.assert_allclose(full[-1, -1], predicted, rtol=1e-12)
        np.testing.assert_array_equal(full[:-1], prompt[:-1])


def test_the_last_entry_reads_the_blocks_of_both_matrices(prompts):
    """Oracle: the source's block form, (w₂₁ᵀ w₂₂) EEᵀ/ρ (W₁₁; w₂₁ᵀ) x_q."""
    params = LinearAttention(*jax.random.normal(jax.random.key(2), (2, 5, 5)))
    prompt = prompt_matrix(prompts.x[0], prompts.y[0], prompts.query[0])
    expected = (
        params.output[-1] @ (prompt @ prompt.T / 5) @ params.key_query[:, :4] @ prompts.query[0]
    )
    np.testing.assert_allclose(attend(params, prompt, 5)[-1, -1], expected, rtol=1e-12)


def test_heads_add_up_with_their_signs(prompts):
    """Oracle: two heads W and −W with outputs 1 and −1 are the head without ReLU."""
    matrix = jax.random.normal(jax.random.key(3), (4, 4))
    pair = head_predictions(jnp.array([1.0, -1.0]), jnp.stack([matrix, -matrix]), prompts)
    np.testing.assert_allclose(pair, predictions(matrix, prompts), rtol=1e-12)


def test_factors_have_their_rank():
    assert np.linalg.matrix_rank(initial_factors(jax.random.key(4), 2, 6).matrix) == 2
    with pytest.raises(ValueError, match="rank must be between 1 and the dimension 3, got 4"):
        initial_factors(jax.random.key(4), 4, 3)
    with pytest.raises(ValueError, match="at least one example, got none"):
        prompt_matrix(jnp.zeros((0, 2)), jnp.zeros(0), jnp.zeros(2))
