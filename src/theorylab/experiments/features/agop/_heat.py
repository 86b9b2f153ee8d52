"""Matrices as pixels: what G looks like beside G*.

Source: zhu · agop · Fig. C.15.
"""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes


def pixels(matrix: Float[np.ndarray, "c c"]) -> Float[np.ndarray, "c c"]:
    """Bring the entries to [0, 1], from the least to the largest.

    Args:
        matrix: Whose entries differ.

    Example:
        >>> pixels(np.array([[1.0, 2.0], [2.0, 3.0]])).tolist()
        [[0.0, 0.5], [0.5, 1.0]]
    """
    low, high = matrix.min(), matrix.max()
    return (matrix - low) / (high - low)


def heat(axis: Axes, matrix: Float[np.ndarray, "c c"]) -> None:
    """Draw entries from 0 to 1 as pixels.

    Args:
        axis: Where.
        matrix: As `pixels` gives it.
    """
    axis.grid(visible=False)
    axis.imshow(matrix, vmin=0.0, vmax=1.0, cmap="viridis")
