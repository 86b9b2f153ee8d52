"""Losses against formulas by hand, curvature against autodiff, thresholds against runs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.training import (
    Loss,
    convert_learning_rate,
    cross_entropy,
    descend,
    empirical_risk,
    exponential,
    hinge,
    logistic,
    squared,
    zero_one,
)

NORMALIZATIONS = ["half_sum", "sum", "mean", "half_mean", "mean_entries"]
N, K = 5, 3
SCALES = {
    "half_sum": 1 / 2,
    "sum": 1,
    "mean": 1 / N,
    "half_mean": 1 / (2 * N),
    "mean_entries": 1 / 15,
}


@pytest.fixture(scope="module")
def outputs():
    return jax.random.normal(jax.random.key(0), (N, K))


@pytest.fixture(scope="module")
def signs():
    return jax.random.rademacher(jax.random.key(1), (N, K), float)


@pytest.fixture(scope="module")
def labels():
    return jax.nn.one_hot(jnp.array([0, 2, 1, 1, 0]), K)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_losses_of_entries_are_the_sums_they_say(normalization, outputs, signs):
    """Oracle: the formula, entry by entry in Python."""
    f, y, s = np.asarray(outputs), np.asarray(signs), SCALES[normalization]
    terms = {
        squared: (f - y) ** 2,
        logistic: np.log(1 + np.exp(-y * f)),
        exponential: np.exp(-y * f),
        hinge: np.where(y * f < 1, 1 - y * f, 0),
    }
    for kind, values in terms.items():
        expected = s * sum(values.ravel().tolist())
        np.testing.assert_allclose(kind(normalization)(outputs, signs), expected, rtol=1e-14)


@pytest.mark.parametrize("normalization", NORMALIZATIONS[:4])
def test_losses_of_samples_are_the_sums_they_say(normalization, outputs, labels):
    """Oracle: minus the logarithm of the right class' share; a count of errors by hand."""
    shares = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    right = shares[np.arange(N), np.argmax(labels, axis=1)]
    expected = -SCALES[normalization] * np.log(right).sum()
    loss = cross_entropy(normalization)(outputs, labels)
    np.testing.assert_allclose(loss, expected, rtol=1e-14)

    errors = sum(int(np.argmax(f) != np.argmax(y)) for f, y in zip(outputs, labels, strict=True))
    assert 0 < errors < N
    expected = SCALES[normalization] * errors
    np.testing.assert_allclose(zero_one(normalization)(outputs, labels), expected, rtol=1e-14)


def test_zero_one_loss_of_one_output_counts_wrong_signs():
    """Oracle: by eye. An output of zero says nothing, so it is wrong."""
    f, y = jnp.array([[1.0], [-1.0], [0.0], [2.0]]), jnp.array([[1.0], [1.0], [1.0], [-1.0]])
    assert zero_one("sum")(f, y) == 3


def test_what_is_not_a_number_is_an_error():
    """A network that diverged must not count as right."""
    one, several = jnp.full((3, 1), jnp.nan), jnp.full((3, 2), jnp.nan)
    assert zero_one("mean")(one, jnp.ones((3, 1))) == 1
    assert zero_one("mean")(several, jnp.array([[1.0, 0.0]] * 3)) == 1


def test_losses_neither_overflow_nor_cancel():
    """Oracle: asymptotics. log(1 + e^1000) = 1000, log(1 + e^-50) = e^-50 to rounding."""
    far = jnp.array([[1000.0], [50.0]])
    values = jax.vmap(lambda f: logistic("sum")(f[None], jnp.ones((1, 1))))
    np.testing.assert_allclose(values(-far), [1000, 50], rtol=1e-14)
    np.testing.assert_allclose(values(far)[1], np.exp(-50), rtol=1e-14)
    slope = jax.grad(logistic("sum"))(-far, jnp.ones((2, 1)))
    np.testing.assert_allclose(slope, [[-1], [-1]], rtol=1e-14)

    f, y = jnp.array([[1e4, 0.0, -1e4]]), jnp.array([[0.0, 1.0, 0.0]])
    np.testing.assert_allclose(cross_entropy("sum")(f, y), 1e4, rtol=1e-14)
    np.testing.assert_allclose(jax.grad(cross_entropy("sum"))(f, y), [[1, -1, 0]], atol=1e-14)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_squared_loss_has_its_curvature_everywhere(normalization, outputs, signs):
    """Oracle: the Hessian in the outputs by autodiff is c times the identity."""
    loss = squared(normalization)
    hessian = jax.hessian(loss)(outputs, signs).reshape(N * K, N * K)
    np.testing.assert_allclose(hessian, loss.curvature(N, K) * np.eye(N * K), atol=1e-14)
    gradient = loss.curvature(N, K) * (outputs - signs)
    np.testing.assert_allclose(jax.grad(loss)(outputs, signs), gradient, rtol=1e-13)


@pytest.mark.parametrize("kind", [logistic, cross_entropy])
def test_curvature_bounds_the_hessian_and_is_reached(kind, outputs, labels):
    """Oracle: eigenvalues of the Hessian in the outputs; the bound is reached on the boundary."""
    loss, c = kind("mean"), kind("mean").curvature(N, K)
    hessian = jax.hessian(loss)(outputs, labels).reshape(N * K, N * K)
    assert np.linalg.eigvalsh(hessian).max() < c
    undecided = jnp.zeros((1, 2))  # two classes, or two signs, of the same probability
    hessian = jax.hessian(kind("sum"))(undecided, jnp.eye(2)[:1]).reshape(2, 2)
    top = np.linalg.eigvalsh(hessian).max()
    np.testing.assert_allclose(top, kind("sum").curvature(1, 2), rtol=1e-14)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_critical_learning_rate_divides_convergence_from_divergence(normalization):
    """Oracle: descent of a linear model with two outputs, whose kernel is XXᵀ ⊗ I."""
    x = jax.random.normal(jax.random.key(2), (6, 2))
    y = jax.random.normal(jax.random.key(3), (6, 2))
    loss = squared(normalization)
    top = jnp.linalg.eigvalsh(x @ x.T).max()
    critical = loss.critical_learning_rate(top, num_samples=6, num_outputs=2)
    optimum = jnp.linalg.lstsq(x, y)[0]
    distance = lambda w: jnp.linalg.norm(w - optimum)  # noqa: E731

    def run(learning_rate):
        risk = empirical_risk(loss, lambda w, x: x @ w)
        optimizer = optax.sgd(learning_rate)
        return descend(lambda w: risk(w, x, y), optimum + 1, optimizer, [0, 2000], distance).records

    below, above = jax.jit(jax.vmap(run))(critical * jnp.array([0.99, 1.01]))
    assert below[1] < 1e-6 * below[0]
    assert above[1] > 1e6 * above[0]


@pytest.mark.parametrize("wanted", NORMALIZATIONS)
def test_converted_learning_rate_gives_the_same_step(wanted, outputs, signs):
    """Oracle: η ∇L is what a step moves by, in every normalisation."""
    given = squared("mean")
    eta = convert_learning_rate(0.3, given, squared(wanted), num_samples=N, num_outputs=K)
    move = eta * jax.grad(squared(wanted))(outputs, signs)
    np.testing.assert_allclose(move, 0.3 * jax.grad(given)(outputs, signs), rtol=1e-14)
    if wanted == "half_sum":
        np.testing.assert_allclose(eta, 2 / N * 0.3, rtol=1e-15)


def test_printed_logistic_loss_would_reward_errors():
    """The source prints 1/(1 + e^(-yh)), which is larger for right answers than for wrong."""
    y = jnp.ones((1, 1))
    assert logistic("sum")(-y, y) > logistic("sum")(y, y)
    assert 1 / (1 + np.exp(1)) < 1 / (1 + np.exp(-1))


@pytest.mark.usefixtures("untyped")
def test_bad_losses_are_refused(outputs, signs):
    with pytest.raises(ValueError, match=r"normalization must be one of half_sum, .* got 'total'"):
        Loss("squared", "total")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"kind must be one of .* got 'huber'"):
        Loss("huber", "mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one term per sample"):
        cross_entropy("mean_entries")
    with pytest.raises(ValueError, match=r"shape \(n, k\), got \(5, 3\) and \(5, 2\)"):
        squared("mean")(outputs, signs[:, :2])
    with pytest.raises(ValueError, match=r"shape \(n, k\), got \(5,\) and \(5,\)"):
        squared("mean")(outputs[:, 0], signs[:, 0])
    with pytest.raises(ValueError, match="at least one sample"):
        squared("mean").scale(0)
    with pytest.raises(ValueError, match="bounded"):
        exponential("mean").curvature(N, K)
    with pytest.raises(ValueError, match="only the squared loss"):
        logistic("mean").critical_learning_rate(1.0, N)
    with pytest.raises(ValueError, match="top_ntk_eigenvalue must be positive, got 0"):
        squared("mean").critical_learning_rate(0.0, N)
    with pytest.raises(ValueError, match="of one kind, got squared and logistic"):
        convert_learning_rate(1.0, squared("mean"), logistic("mean"), N)
    with pytest.raises(ValueError, match="learning_rate must be positive, got -1"):
        convert_learning_rate(-1.0, squared("mean"), squared("sum"), N)
