"""Kernel regression on many points: exactly in n³, or on a few centres in n√n.

Regression with a kernel solves (Θ + λI)α = y, which costs n³. Nyström's way keeps m′ of the n
points as centres and solves (Θ_m′n Θ_nm′ + λΘ_m′m′)α̃ = Θ_m′n y by preconditioned conjugate
gradients. With m′ ∝ √n it costs n√n: operations are counted here, for the tangent kernel of a deep
network on handwritten digits. Accuracy pays for it: √n centres lose a fifth of the digits, 5√n a
few of a hundred (the catalogue hopes for one), and 20√n come within 2 % of the exact solution.

The equation minimises ½Σ(f − y)² + ½λ‖f‖². The source writes the penalty as λ‖f‖², which would give
2λ. With k outputs the kernel is Θ ⊗ I_k, and Θ alone does.

Source: golikov · kernel-solvers · 2.5.1, Eqs 2.89–2.95.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    identity,
    median_at_least,
    median_at_most,
    trend,
)
from theorylab.data import mnist5k
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Plural, Positive, Seeded
from theorylab.kernels import infinite_kernels
from theorylab.kernels.solvers import (
    cholesky_solve,
    conjugate_gradients,
    low_rank_preconditioner,
    nystrom_factor,
    nystrom_solve,
)
from theorylab.models import NTK, mlp
from theorylab.progress import report

PRECISION = "float64"
FORMULA = (
    r"(\Theta + \lambda I)\,\alpha = y, \qquad"
    r" (\Theta_{m'n} \Theta_{nm'} + \lambda \Theta_{m'm'})\,\tilde\alpha = \Theta_{m'n}\, y"
)

RIDGE = Source("golikov", "kernel-solvers", "2.5.1, Eq. 2.93")
BLOCKS = Source("golikov", "kernel-solvers", "2.5.1, Eqs 2.89–2.92")
CENTRES = Source("golikov", "kernel-solvers", "2.5.1, Eqs 2.94–2.95")

NUM_CLASSES = 10


@dataclass(frozen=True)
class Config(Seeded):
    """Digits, split at random for every seed, and the kernel of a fully connected network."""

    sizes: Increasing[Count] = (250, 500, 1000, 2000)  # training points n
    multiples: Increasing[Positive] = (1.0, 5.0, 20.0)  # centres, in units of √n, at the largest n
    num_test: Count = 1000  # test points
    depth: Plural = 4  # layers with weights, hidden ones and the output
    ridge: Positive = 0.1  # λ
    tolerance: Positive = 1e-4  # relative residual at which conjugate gradients stop
    num_seeds: Count = 12  # splits of the digits, each with random centres of its own

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes[0] < 25 or self.sizes[-1] + self.num_test > 5000:
            raise ValueError(
                "sizes must be at least 25, and leave room for the tests among 5000 digits, got "
                f"{self.sizes} and {self.num_test} tests."
            )
        if self.multiples[-1] > math.sqrt(self.sizes[-1]):
            raise ValueError(f"multiples must be at most √n, got {self.multiples}.")


PRESETS = {
    "smoke": Config(sizes=(100, 200, 400), num_test=400, num_seeds=8),
    "paper": Config(sizes=(500, 1000, 2000, 4000), num_seeds=20),
}


class Result(NamedTuple):
    """Axes: s seeds, z sizes, c multiples of √n."""

    exact_accuracy: Float[np.ndarray, " s"]  # by Cholesky, at the largest n
    accuracy: Float[np.ndarray, "s c"]  # on centres, at the largest n
    usual_accuracy: Float[np.ndarray, " s"]  # on 5√n centres, at the largest n
    operations: Float[np.ndarray, "s z"]  # of Nyström's way, with 5√n centres
    exact_operations: Float[np.ndarray, "s z"]  # n³/3 + n²k
    centre_iterations: Float[np.ndarray, "s z"]  # of conjugate gradients on centres
    iterations: Float[np.ndarray, " s"]  # of those for the exact equation, preconditioned
    plain_iterations: Float[np.ndarray, " s"]  # and not
    exact_outputs: Float[np.ndarray, "m k"]  # first seed: by Cholesky
    conjugate_outputs: Float[np.ndarray, "m k"]  # and by conjugate gradients, to 1e-10
    block_solution: Float[np.ndarray, "b k"]  # (Θ ⊗ I_k + λI)⁻¹y as one dense system
    shared_solution: Float[np.ndarray, "b k"]  # and with one Θ for all outputs
    printed_gradient: Float[np.ndarray, " s"]  # of ½Σ(f − y)² + λ‖f‖² at the solution with λ
    corrected_gradient: Float[np.ndarray, " s"]  # and at that with 2λ; relative to that at 0
    half_gradient: Float[np.ndarray, " s"]  # of ½Σ(f − y)² + ½λ‖f‖² at the solution with λ


class Pool(NamedTuple):
    """All digits of a run: the kernel of every pair, and targets. Points are their numbers."""

    gram: Float[np.ndarray, "p p"]
    targets: Float[np.ndarray, "p k"]

    def kernel(
        self, first: Array | np.ndarray, second: Array | np.ndarray
    ) -> Float[np.ndarray, "n1 n2"]:
        """The kernel of points, which are given by their numbers (n, 1)."""
        return self.gram[np.ix_(np.asarray(first)[:, 0], np.asarray(second)[:, 0])]


def memory(config: Config) -> int:
    """Bytes of the pool's kernels, and of a factor of the largest training set."""
    pool, largest = config.sizes[-1] + config.num_test, config.sizes[-1]
    return 8 * (5 * pool**2 + 4 * largest**2)


def run(config: Config) -> Result:
    """Solve every split in all ways."""
    report("the kernel of all digits", 0.0)
    key = jax.random.key(config.seed)
    pool = _pool(key, config)
    found: list[dict[str, np.ndarray]] = []
    for seed in range(config.num_seeds):
        report(f"split {seed + 1} of {config.num_seeds}", 0.2 + 0.8 * seed / config.num_seeds)
        found.append(_split(pool, np.random.default_rng([config.seed, seed]), config))
    stacked = {name: np.stack([one[name] for one in found]) for name in found[0] if name[0] != "_"}
    return Result(
        exact_outputs=found[0]["_exact_outputs"],
        conjugate_outputs=found[0]["_conjugate_outputs"],
        block_solution=found[0]["_block_solution"],
        shared_solution=found[0]["_shared_solution"],
        **stacked,
    )


def _pool(key: Array, config: Config) -> Pool:
    """Digits of length √d and their kernel."""
    digits = mnist5k(scaling="sphere").shuffled(key)
    digits = digits.subset(slice(config.sizes[-1] + config.num_test))
    x = digits.x * math.sqrt(digits.input_shape[0])
    architecture = mlp([1] * (config.depth - 1))
    kernels = infinite_kernels(architecture, x, parametrization=NTK(weight_scale=math.sqrt(2.0)))
    return Pool(np.asarray(kernels.ntk, float), np.asarray(digits.y, float) - 1 / NUM_CLASSES)


def _split(pool: Pool, random: np.random.Generator, config: Config) -> dict[str, np.ndarray]:
    """All that is measured with one split of the digits; what begins with _ is kept once."""
    order = random.permutation(len(pool.gram))[:, None]
    tests, train = order[: config.num_test], order[config.num_test :]
    classes = pool.targets[tests[:, 0]].argmax(axis=1)
    y, cross = pool.targets[train[:, 0]], pool.kernel(tests, train)
    matrix = pool.kernel(train, train)

    def accuracy(outputs: np.ndarray) -> float:
        return float(np.mean(outputs.argmax(axis=1) == classes))

    exact = cross @ cholesky_solve(matrix, y, config.ridge).coefficients
    on_centres = []
    for multiple in config.multiples:
        count = math.ceil(multiple * math.sqrt(len(train)))
        alpha = _on_centres(pool, train, count, config).coefficients
        on_centres.append(accuracy(cross[:, :count] @ alpha))
    usual = [
        _on_centres(pool, train[:n], math.ceil(5 * math.sqrt(n)), config) for n in config.sizes
    ]
    last = usual[-1].coefficients
    exact_operations = [n**3 / 3 + n**2 * NUM_CLASSES for n in config.sizes]
    return {
        "exact_accuracy": np.asarray(accuracy(exact)),
        "accuracy": np.asarray(on_centres),
        "usual_accuracy": np.asarray(accuracy(cross[:, : len(last)] @ last)),
        "operations": np.asarray([float(one.num_operations) for one in usual]),
        "exact_operations": np.asarray(exact_operations),
        "centre_iterations": np.asarray([float(one.num_steps) for one in usual]),
        "_exact_outputs": exact,
        **_conjugate(pool, matrix, cross, train, config),
        **_gradients(matrix[:100, :100], y[:100], config.ridge),
        **_outputs_together(matrix[:20, :20], y[:20], config.ridge),
    }


def _on_centres(pool: Pool, train: np.ndarray, count: int, config: Config):
    """Nyström's way, with the first points of a random order for centres."""
    y = pool.targets[train[:, 0]]
    return nystrom_solve(
        pool.kernel, train, train[:count], y, config.ridge, config.tolerance, max_steps=500
    )


def _conjugate(
    pool: Pool, matrix: np.ndarray, cross: np.ndarray, train: np.ndarray, config: Config
) -> dict[str, np.ndarray]:
    """The exact equation by conjugate gradients, with and without a preconditioner."""
    y = pool.targets[train[:, 0]]
    centres = train[: math.ceil(5 * math.sqrt(len(train)))]
    preconditioner = low_rank_preconditioner(
        nystrom_factor(pool.kernel, train, centres), config.ridge
    )

    def solve(tolerance: float, preconditioner=None):
        return conjugate_gradients(
            matrix.__matmul__, y, config.ridge, preconditioner, tolerance, max_steps=5000
        )

    return {
        "iterations": np.asarray(float(solve(config.tolerance, preconditioner).num_steps)),
        "plain_iterations": np.asarray(float(solve(config.tolerance).num_steps)),
        "_conjugate_outputs": cross @ solve(1e-10, preconditioner).coefficients,
    }


def _gradients(matrix: np.ndarray, y: np.ndarray, ridge: float) -> dict[str, np.ndarray]:
    """How large the gradient of the penalised loss is, at two candidates for its minimum."""
    kernel = jnp.asarray(matrix)

    def slope(penalty: float, alpha: np.ndarray) -> float:
        def loss(alpha: Array) -> Array:
            f = kernel @ alpha
            return jnp.sum((f - y) ** 2) / 2 + penalty * jnp.sum(alpha * f)

        return float(jnp.linalg.norm(jax.grad(loss)(jnp.asarray(alpha))))

    start = slope(ridge, np.zeros_like(y))
    once, twice = (cholesky_solve(matrix, y, f * ridge).coefficients for f in (1.0, 2.0))
    return {
        "printed_gradient": np.asarray(slope(ridge, once) / start),
        "corrected_gradient": np.asarray(slope(ridge, twice) / start),
        "half_gradient": np.asarray(slope(ridge / 2, once) / start),
    }


def _outputs_together(matrix: np.ndarray, y: np.ndarray, ridge: float) -> dict[str, np.ndarray]:
    """All outputs as one system of size nk, and one after another with one kernel."""
    whole = np.kron(matrix, np.eye(NUM_CLASSES)) + ridge * np.eye(y.size)
    return {
        "_block_solution": np.linalg.solve(whole, y.ravel()).reshape(y.shape),
        "_shared_solution": cholesky_solve(matrix, y, ridge).coefficients,
    }


# The exponent's tolerance is the catalogue's, 1.5 ± 0.25, and so are 30 iterations. It proposes 1 %
# at m′ = 5√n. On digits, with other seeds, 5√n centres lose 3 to 4 % at n = 4000 at every ridge,
# and 6 % at n = 600; 20√n lose 0.9 to 1.4 % and 0.3 %: the source's O(√n) has a constant. What a
# preconditioner saves has no number there; it was a factor 2.1 at n = 600 (2.11 to 2.18).
CLAIMS = (
    CENTRES.claim(
        "Regression on 5√n centres costs n^1.5 operations.",
        lambda r, c: exponent_between(np.asarray(c.sizes), r.operations, 1.25, 1.75),
        formula=r"O(n \sqrt n \log n)",
    ),
    CENTRES.claim(
        "On centres, conjugate gradients need fewer than 30 iterations at every size.",
        lambda r, c: median_at_most(r.centre_iterations.max(axis=1), 30.0),
    ),
    CENTRES.claim(
        "For the exact equation, a preconditioner of 5√n centres needs fewer than 30 too.",
        lambda r, c: median_at_most(r.iterations, 30.0),
    ),
    CENTRES.claim("Accuracy grows with the number of centres.", lambda r, c: trend(r.accuracy.T)),
    *CENTRES.erratum(
        printed=(
            "With 5√n centres it is within 1 % of the exact one.",
            lambda r, c: median_at_most(r.exact_accuracy - r.usual_accuracy, 0.01),
        ),
        corrected=(
            "With 20√n centres it is within 2 % of the exact one.",
            lambda r, c: median_at_most(r.exact_accuracy - r.accuracy[:, -1], 0.02),
        ),
    ),
    BLOCKS.claim(
        "Conjugate gradients and Cholesky give one solution.",
        lambda r, c: identity(r.conjugate_outputs, r.exact_outputs, 1e-6),
        formula=r"(\Theta + \lambda I)\,\alpha = y",
    ),
    BLOCKS.claim(
        "One kernel serves all outputs.",
        lambda r, c: identity(r.shared_solution, r.block_solution, 1e-9),
        formula=r"(\Theta \otimes I_k + \lambda I)^{-1} = (\Theta + \lambda I)^{-1} \otimes I_k",
    ),
    *RIDGE.erratum(
        printed=(
            "The minimum of ½Σ(f − y)² + λ‖f‖² solves (Θ + λI)α = y.",
            lambda r, c: identity(r.printed_gradient, np.zeros_like(r.printed_gradient), 1e-8),
            r"(\Theta + \lambda I)\,\alpha = y",
        ),
        corrected=(
            "The minimum of ½Σ(f − y)² + λ‖f‖² solves (Θ + 2λI)α = y.",
            lambda r, c: identity(r.corrected_gradient, np.zeros_like(r.corrected_gradient), 1e-8),
            r"(\Theta + 2 \lambda I)\,\alpha = y",
        ),
    ),
    RIDGE.claim(
        "With the penalty ½λ‖f‖² it is λ.",
        lambda r, c: identity(r.half_gradient, np.zeros_like(r.half_gradient), 1e-8),
    ),
    BLOCKS.control(
        "The exact solution costs n³ operations.",
        lambda r, c: exponent_between(np.asarray(c.sizes), r.exact_operations, 2.7, 3.0),
    ),
    CENTRES.control(
        "Without a preconditioner it takes at least one and a half times as many iterations.",
        lambda r, c: median_at_least(r.plain_iterations / r.iterations, 1.5),
    ),
    CENTRES.control(
        "√n centres are too few: they lose more than 5 %.",
        lambda r, c: median_at_least(r.exact_accuracy - r.accuracy[:, 0], 0.05),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Operations and iterations over n, accuracy over centres."""
    sizes = np.asarray(config.sizes)
    multiples = np.asarray(config.multiples)
    figure, (cost, iterations, accuracy) = panels(
        "operations", "iterations on 5√n centres", "accuracy on test digits"
    )
    n = sizes
    cost.loglog(n, np.median(result.operations, axis=0), "o-", label="5√n centres")
    cost.loglog(n, np.median(result.exact_operations, axis=0), "o-", label="Cholesky")
    start = np.median(result.operations[:, 0])
    cost.loglog(n, start * (n / n[0]) ** 1.5, label="n^1.5", **THEORY)
    iterations.semilogx(n, np.median(result.centre_iterations, axis=0), "o-", label="on centres")
    iterations.plot(n[-1], np.median(result.iterations), "s", label="exact, preconditioned")
    iterations.plot(n[-1], np.median(result.plain_iterations), "^", label="exact, plain")
    accuracy.semilogx(multiples, result.accuracy.T, "o", color="#56B4E9", markersize=3)
    accuracy.axhline(np.median(result.exact_accuracy), label="exact", **THEORY)
    for axis in (cost, iterations):
        axis.set(xlabel="training points n")
    accuracy.set(xlabel="centres / √n")
    for axis in (cost, iterations, accuracy):
        axis.legend(fontsize=7)
    return figure
