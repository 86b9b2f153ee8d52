import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics.quadratic import gated, plane, several_examples

WIDTH, NUM_SAMPLES, NUM_STEPS = 40, 9, 25


@jax.jit
def weight_space(key, ratio):
    """Autodiff descent on the quadratic model, η in units of 1/λ_max; with what theory predicts."""
    weights_key, data_key = jax.random.split(key)
    x, y = several_examples.two_gaussians(data_key, NUM_SAMPLES)
    initial = gated.init(weights_key, WIDTH, 1)
    model = gated.quadratic_model(initial)

    def outputs(weights):
        return model(weights, x[:, None])[:, 0]

    def kernel(weights):
        rows = [leaf.reshape(NUM_SAMPLES, -1) for leaf in jax.jacrev(outputs)(weights)]
        return rows[0] @ rows[0].T + rows[1] @ rows[1].T

    rate = ratio / jnp.linalg.eigvalsh(kernel(initial))[-1]

    def step(weights, _):
        slope = jax.grad(lambda w: jnp.sum((outputs(w) - y) ** 2) / 2)(weights)
        after = jax.tree.map(lambda w, g: w - rate * g, weights, slope)
        return after, (outputs(weights), kernel(weights))

    last, (g, k) = jax.lax.scan(step, initial, length=NUM_STEPS + 1)
    states = jax.vmap(lambda g, k: several_examples.projected(g, k, x))(g, k)
    problem = several_examples.problem(x, y, WIDTH, rate)
    start = jax.tree.map(lambda leaf: leaf[0], states)
    reduced = jax.vmap(lambda s: several_examples.reduced(s, x, y, WIDTH, rate))(states)
    printed = jax.vmap(lambda s, g: several_examples.printed_reduced(s, g, x, y, WIDTH, rate))(
        states, g
    )
    return {
        "x": x,
        "outputs": g,
        "kernels": k,
        "states": jnp.stack([*states]),
        "predicted": jnp.stack(plane.trajectory(start, problem, NUM_STEPS)),
        "reduced": jnp.stack([*reduced]),
        "printed": jnp.stack([*printed]),
        "rate": rate,
        "errors": [
            several_examples.reduced_error(
                jax.tree.map(lambda values: values[:-1], each),
                jax.tree.map(lambda values: values[1:], reduced),
            )
            for each in (reduced, printed)
        ],
        "targets": y,
        "by_matrix": several_examples.matrix_step(g[2], k[2], x, y, WIDTH, rate),
        "losses": jax.vmap(lambda g: several_examples.projected_losses(g, x, y))(g),
        "total": jnp.sum((g - y[None]) ** 2, axis=1) / 2,
        "frozen_kernel": several_examples.kernel(last, initial, x),
        "frozen_state": several_examples.state(initial, initial, x),
    }


@pytest.fixture(scope="module", params=[1.4, 2.6])
def found(request):
    return jax.tree.map(np.asarray, weight_space(jax.random.key(0), request.param))


def test_each_direction_is_the_map_of_one_example(found):
    """Oracle: autodiff descent on the weights. An identity: rounding."""
    scale = np.abs(found["states"]).max(axis=1, keepdims=True)
    error = np.abs(found["states"] - found["predicted"]) / scale
    assert error.max() < 1e-12


def test_reduced_numbers_are_those_of_the_definitions(found):
    """Oracle: u, v and both w written out in NumPy, sign by sign."""
    x, y, g = found["x"], found["targets"], found["outputs"]
    for place, mask in enumerate((x >= 0, x < 0)):
        p, factor = np.where(mask, x, 0.0), found["rate"] ** 2 / WIDTH
        u, v, w = (each[:, place] for each in found["reduced"])
        np.testing.assert_allclose(u, factor * ((g - y) @ p) ** 2, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(v, found["rate"] * found["states"][1][:, place], rtol=1e-12)
        np.testing.assert_allclose(w, factor * ((g - y) @ p) * (p @ y), rtol=1e-10, atol=1e-14)
        printed = factor * ((g - y)[:, mask] @ y[mask])
        np.testing.assert_allclose(found["printed"][2][:, place], printed, rtol=1e-10, atol=1e-14)


def test_the_reduction_is_exact_with_both_products_and_not_as_printed(found):
    """Oracle: the next u and v of autodiff descent. Rounding; and the missing factor ‖p‖²."""
    exact, printed = found["errors"]
    assert exact < 1e-11
    assert printed > 1e-3


def test_the_kernel_has_two_directions_that_never_turn(found):
    """Oracle: eigenvectors of the autodiff kernel at every time."""
    vectors = np.asarray(several_examples.directions(jnp.asarray(found["x"])).vectors)
    for kernel, curvatures in zip(found["kernels"], found["states"][1], strict=True):
        expected = np.einsum("a,ai,aj->ij", curvatures, vectors, vectors)
        np.testing.assert_allclose(kernel, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(2), atol=1e-14)


def test_closed_forms_are_those_of_autodiff(found):
    """Oracle: the Jacobian's kernel, and the outputs, at the first weights."""
    state, outputs = found["frozen_state"]
    np.testing.assert_allclose(outputs, found["outputs"][0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.stack(state), found["states"][:, 0], rtol=1e-12)
    assert found["frozen_kernel"].shape == found["kernels"][0].shape


def test_the_printed_matrix_step_is_exact(found):
    """Oracle: the third step of autodiff descent, outputs and kernel."""
    for predicted, measured in zip(
        found["by_matrix"], (found["outputs"][3], found["kernels"][3]), strict=True
    ):
        np.testing.assert_allclose(predicted, measured, atol=1e-12 * np.abs(measured).max())


def test_what_is_orthogonal_is_never_learned(found):
    """Oracle: conservation; and the three parts add up to the loss."""
    np.testing.assert_allclose(found["losses"][:, 2], found["losses"][0, 2], rtol=1e-11)
    np.testing.assert_allclose(found["losses"].sum(axis=1), found["total"], rtol=1e-12)


def test_bounds_are_half_and_three_halves_of_the_larger_square():
    """Oracle: s₊ = 25, s₋ = 4 by hand; and a sign without examples has no direction."""
    low, high = several_examples.largest_eigenvalue_bounds(jnp.array([3.0, -2.0, 4.0]))
    assert (float(low), float(high)) == (12.5, 37.5)
    alone = several_examples.directions(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(alone.vectors[1], [0.0, 0.0])


def test_samples_are_two_gaussians():
    """Oracle: means ±2 and variance 1, with 2000 samples and 4 standard errors."""
    x, y = (np.asarray(v) for v in several_examples.two_gaussians(jax.random.key(5), 4000))
    assert sorted(set(y)) == [-1.0, 1.0]
    for sign in (-1, 1):
        part = x[y == sign]
        assert abs(part.mean() - 2 * sign) < 4 / np.sqrt(2000)
        assert abs(part.std() - 1) < 4 / np.sqrt(4000)


def test_input_is_checked():
    with pytest.raises(ValueError, match="num_samples must be at least 2, got 1"):
        several_examples.two_gaussians(jax.random.key(0), 1)
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        several_examples.problem(jnp.ones(2), jnp.ones(2), 0, 1.0)


def test_the_error_of_a_map_is_relative_to_the_running_maximum():
    """Oracle: by hand; r goes 1, 4, 2 and is predicted as 1, 4, 3, which is 1 of 4."""

    def state(output):
        pair = jnp.stack([jnp.asarray(output), jnp.ones(3)], axis=1)
        return plane.PlaneState(pair, jnp.ones((3, 2)))

    problem = plane.PlaneProblem(jnp.zeros(2), 1.0, 1.0)
    seen, predicted = state([1.0, -4.0, 2.0]), state([1.0, -4.0, 3.0])
    assert float(several_examples.map_error(seen, predicted, problem)) == 0.25
