"""Margins: by how much the right class wins.

    one output, y = ±1      g(x) = y f(x)
    several outputs         g(x) = f_y(x) − max_{j≠y} f_j(x)

An input is classified correctly where g > 0. Margins are in units of the outputs, which can be
scaled up at will: bounds divide them by a norm of the weights (`spectral_complexity`).

Source: shi · margins · Defs 4.2–4.6; arora · spectral-margin-bound · Thm 5.5.6.
"""

import numpy as np
from jaxtyping import Array, Float

Outputs = Float[np.ndarray, "n k"] | Float[Array, "n k"]


def classification_margins(outputs: Outputs, y: Outputs) -> Float[np.ndarray, " n"]:
    """The margin g of every input.

    Args:
        outputs: f(x).
        y: ±1 for one output; for several one-hot rows, or probabilities of which the largest tells
            the class.

    Example:
        >>> f = np.array([[1.0, 3.0, 2.0], [1.0, 0.0, 0.5]])
        >>> classification_margins(f, np.eye(3)[[1, 2]]).tolist()
        [1.0, -0.5]
    """
    f, targets = np.asarray(outputs, float), np.asarray(y, float)
    if f.ndim != 2 or f.shape != targets.shape:
        raise ValueError(
            f"outputs and y must both have shape (n, k), got {f.shape} and {targets.shape}."
        )
    if f.shape[1] == 1:
        return (targets * f)[:, 0]
    rows, right = np.arange(len(f)), targets.argmax(axis=1)
    others = f.copy()
    others[rows, right] = -np.inf
    return f[rows, right] - others.max(axis=1)
