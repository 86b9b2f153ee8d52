"""How little a number depends on what is varied."""

import numpy as np
from jaxtyping import Float


def relative_spread(values: Float[np.ndarray, "*s k"]) -> Float[np.ndarray, "*s"]:
    """(largest − smallest) / mean along the last axis.

    Args:
        values: One for each setting, such as a width.

    Example:
        >>> relative_spread(np.array([[1.0, 3.0]])).tolist()
        [1.0]
    """
    return np.ptp(values, axis=-1) / values.mean(axis=-1)
