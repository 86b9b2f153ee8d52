"""Up to which sharpness an optimiser is stable on a quadratic.

    gradient descent    w ← w − η∇f                              λ < 2/η
    heavy ball          w ← w − η∇f + β(w − w₋)                  λ < 2(1 + β)/η
    Nesterov            gradient at w + β(w − w₋)                λ < 2(1 + β)/((1 + 2β)η)
    Adam                m ← β₁m + (1 − β₁)∇f, w ← w − ηm/P       λ_P < 2(1 + β₁)/((1 − β₁)η)

with λ the largest eigenvalue of the Hessian, λ_P that of P^(−½) ∇²f P^(−½): 38/η at β₁ = 0.9. They
follow from the roots of z² − (1 + β − ηλ)z + β for the heavy ball, which leave the unit circle at
z = −1; Adam with its P held fixed is a heavy ball whose learning rate is (1 − β₁)η.

Source: arora · momentum · §2.3; Cohen et al. (2021), arXiv:2103.00065, App. B; Cohen et al. (2022),
Adaptive gradient methods at the edge of stability, arXiv:2207.14484, §2.
"""

from theorylab.training.losses import check_positive
from theorylab.typing import Scalar

GRADIENT_DESCENT = ("sgd", "gd")
PRECONDITIONED = ("adam", "adamw", "nadam", "amsgrad", "rmsprop", "adagrad")
_WITHOUT_MOMENTUM = (*GRADIENT_DESCENT, "rmsprop", "adagrad")
KNOWN = (*GRADIENT_DESCENT, "momentum", "nesterov", *PRECONDITIONED)


def stability_threshold(
    learning_rate: Scalar, optimizer: str = "sgd", momentum: Scalar = 0.9
) -> Scalar:
    """The sharpness up to which the optimiser is stable: 2/η for gradient descent.

    For "adam" and its like it is the preconditioned sharpness.

    Args:
        learning_rate: The learning rate η.
        optimizer: "sgd", "momentum" (the heavy ball), "nesterov", "adam", "adamw", "amsgrad",
            "rmsprop" or "adagrad".
        momentum: β of "momentum" and "nesterov", β₁ of Adam; not looked at for the others.

    Example:
        >>> stability_threshold(0.1)
        20.0
        >>> [round(stability_threshold(0.1, name), 4) for name in ("momentum", "nesterov", "adam")]
        [38.0, 13.5714, 380.0]
    """
    check_positive("learning_rate", learning_rate)
    if optimizer not in KNOWN:
        raise ValueError(f"optimizer must be one of {', '.join(KNOWN)}, got {optimizer!r}.")
    eta, beta = learning_rate, momentum
    if optimizer in _WITHOUT_MOMENTUM:
        return 2 / eta
    match optimizer:
        case "momentum":
            return 2 * (1 + beta) / eta
        case "nesterov":
            return 2 * (1 + beta) / ((1 + 2 * beta) * eta)
        case "nadam":  # Nesterov's gradient, averaged as Adam's
            return 2 * (1 + beta) / ((1 - beta) * (1 + 2 * beta) * eta)
    return 2 * (1 + beta) / ((1 - beta) * eta)
