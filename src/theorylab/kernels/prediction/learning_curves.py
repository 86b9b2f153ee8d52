"""The test error of kernel ridge regression, predicted from eigenvalues and target coefficients.

On inputs with law p, let the kernel have eigenvalues λᵢ and eigenfunctions φᵢ, orthonormal in
L²(p), and the target f = Σ vᵢφᵢ with noise of variance σ² on top. Trained on n samples with ridge
δ, (K + δI)α = y, the mean squared error over samples and test points is

    E = E₀ (Σᵢ (1 − Lᵢ)² vᵢ² + σ²)       with the noise of a test target; E − σ² without
    Lᵢ = λᵢ/(λᵢ + κ)                      learnability of mode i
    n = Σᵢ Lᵢ + δ/κ                       determines κ ≥ 0, the effective ridge
    E₀ = n / (n − Σᵢ Lᵢ²)                 overfitting coefficient

and the training error is (δ/(nκ))² E. Derived for features that behave like independent Gaussians;
kernels on the sphere or of images come close. A level of degenerate eigenvalues is given by its
multiplicity.

Source: golikov · kernel-solvers · 2.5.1 (ridge regression); the theory is Simon et al. (2023),
arXiv:2110.03922, and Canatar et al. (2021), arXiv:2006.13198.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.answers.base import fields_of
from theorylab.typing import Axes, Scalar

from .modes import Modes, as_modes, check_finite, check_not_negative, check_rows


class Spectrum(Answer, axes=("mode",)):
    """A kernel and a target in the eigenfunctions of the kernel.

    Args:
        eigenvalues: λᵢ of the kernel's integral operator.
        powers: vᵢ², the squared coefficients of the target (summed over outputs, and over the level
            if eigenvalues are degenerate).
        multiplicities: How often each eigenvalue occurs.

    Example: ten equal eigenvalues, with fewer samples than modes, and more.
        >>> one = jnp.array([1.0])
        >>> level = Spectrum(eigenvalues=0.1 * one, powers=one, multiplicities=10 * one)
        >>> [round(float(learning_curve(level, n).test_error), 4) for n in (5, 20)]
        [0.5, 0.0]
    """

    eigenvalues: Float[Array, " modes"]
    powers: Float[Array, " modes"]
    multiplicities: Float[Array, " modes"]


class LearningCurve(Answer):
    """What theory says about one number of samples.

    Args:
        effective_ridge: κ.
        learnabilities: Lᵢ.
        overfitting: E₀; ∞ where n equals the number of modes and there is no ridge.
        test_error: E, with the noise of the test targets.
        train_error: The mean squared error on the training samples.

    Example: five samples for ten equal eigenvalues: half of every mode is learned.
        >>> one = jnp.array([1.0])
        >>> curve = learning_curve(Spectrum(0.1 * one, powers=one, multiplicities=10 * one), 5)
        >>> [round(float(number), 4) for number in (curve.learnabilities[0], curve.overfitting)]
        [0.5, 2.0]
    """

    effective_ridge: Float[Array, ""]
    learnabilities: Float[Array, " modes"]
    overfitting: Float[Array, ""]
    test_error: Float[Array, ""]
    train_error: Float[Array, ""]

    def draw(self, axes: Axes) -> None:
        """Test and training error; of a mapped answer, over its number."""
        from theorylab.answers.figure import curve

        errors = {"test error": self.test_error, "training error": self.train_error}
        for name, error in errors.items():
            values = jnp.atleast_1d(error)
            curve(axes, jnp.arange(len(values)), values, label=name)
            axes.lines[-1].set_marker("o")
        axes.set_xlabel("number in the batch")
        axes.set_ylabel("mean squared error E")
        axes.legend(fontsize=7)


def learning_curve(
    spectrum: Spectrum, num_samples: Scalar, ridge: Scalar = 0.0, noise: Scalar = 0.0
) -> LearningCurve:
    """Predict the error of kernel ridge regression; map it over n with `jax.vmap`.

    Args:
        spectrum: Eigenvalues and the target's coefficients.
        num_samples: n.
        ridge: δ.
        noise: σ², the variance of the targets' noise.

    Example:
        >>> flat = Spectrum(jnp.array([1.0]), jnp.array([1.0]), jnp.array([20.0]))
        >>> learning_curve(flat, num_samples=10).test_error.round(6).tolist()  # 1 − n/modes
        0.5
    """
    _check_spectrum(spectrum)
    check_not_negative("ridge", ridge)
    check_not_negative("noise", noise)
    if not isinstance(num_samples, Tracer) and not np.asarray(num_samples) >= 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}.")
    eigenvalues, powers, multiplicities = spectrum
    n = jnp.asarray(num_samples, eigenvalues.dtype)
    kappa = _effective_ridge(spectrum, n, ridge)
    # Without ridge and with more samples than modes, κ = 0: all that has a mode is learned.
    learned = jnp.where(eigenvalues > 0, eigenvalues / (eigenvalues + kappa), 0.0)
    overfitting = n / jnp.maximum(n - jnp.sum(multiplicities * learned**2), 0.0)
    missed = jnp.sum((1 - learned) ** 2 * powers) + noise
    test_error = jnp.where(missed > 0, overfitting * missed, 0.0)  # E₀ = ∞ finds nothing to fit
    # δ/(nκ) = 1 − Σᵢ Lᵢ/n, which holds for κ = 0 too.
    kept = 1 - jnp.sum(multiplicities * learned) / n
    return LearningCurve(kappa, learned, overfitting, test_error, kept**2 * test_error)


def estimated_spectrum(
    kernel: Float[Array, "n n"] | Modes, targets: Float[Array, "n k"]
) -> Spectrum:
    """The spectrum seen in a large sample: λᵢ = eigenvalue/n, vᵢ² = (uᵢᵀy)²/n.

    With it, errors of a training set much smaller than the sample are predicted before any fit.

    Args:
        kernel: K(X, X) on the large sample, or its modes.
        targets: y there; noise in them is taken for part of the target.

    Example:
        >>> kernel, targets = jnp.diag(jnp.array([2.0, 4.0])), jnp.array([[1.0], [2.0]])
        >>> spectrum = estimated_spectrum(kernel, targets)
        >>> sorted(zip(spectrum.eigenvalues.tolist(), spectrum.powers.round(4).tolist()))
        [(1.0, 0.5), (2.0, 2.0)]
    """
    modes = as_modes(kernel)
    n = len(modes.eigenvalues)
    check_rows("targets", targets, n)
    powers = jnp.sum((modes.eigenvectors.T @ targets) ** 2, axis=1) / n
    return Spectrum(modes.eigenvalues / n, powers, jnp.ones(n, powers.dtype))


def _effective_ridge(spectrum: Spectrum, n: Float[Array, ""], ridge: Scalar) -> Float[Array, ""]:
    """κ with Σᵢ λᵢ/(λᵢ + κ) + δ/κ = n: bisection of log κ, since the left side falls with κ."""
    eigenvalues, _, multiplicities = spectrum
    high = (jnp.sum(multiplicities * eigenvalues) + ridge) / n  # Σ λ/(λ + κ) ≤ Σ λ/κ
    low = high * 1e-12 * jnp.finfo(eigenvalues.dtype).eps

    def excess(kappa: Float[Array, ""]) -> Float[Array, ""]:
        learned = multiplicities * eigenvalues / (eigenvalues + kappa)
        return jnp.sum(learned) + ridge / kappa - n

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        below, above = bounds
        middle = jnp.sqrt(below) * jnp.sqrt(above)
        large = excess(middle) > 0
        return jnp.where(large, middle, below), jnp.where(large, above, middle)

    below, above = jax.lax.fori_loop(0, 100, halve, (low, high))
    return jnp.where(excess(low) > 0, jnp.sqrt(below) * jnp.sqrt(above), 0.0)


def _check_spectrum(spectrum: Spectrum) -> None:
    for name, values in fields_of(spectrum).items():
        if values.ndim != 1 or values.shape != spectrum.eigenvalues.shape:
            raise ValueError(f"{name} must have one number for each mode, got {values.shape}.")
        check_finite(name, values)
        if not isinstance(values, Tracer) and np.asarray(values).min(initial=0.0) < 0:
            raise ValueError(f"{name} must not be negative, got {float(np.min(values))}.")
