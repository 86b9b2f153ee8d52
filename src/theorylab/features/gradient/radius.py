"""How long inputs of a mixture are: the theory wants a bound B_x, and Gaussians have none.

    B_x = max_j ‖μ_j‖ + σ(√d + √(2 log(n/δ))),   σ = max_j σ_j

All of n samples are within it but with probability δ, because the length of a standard normal
vector is above √d + t with probability e^{−t²/2} at most. How probably one sample is longer is
known exactly: given its cluster, ‖x‖²/σ_j² has a χ² law with d degrees and centre ‖μ_j‖²/σ_j².

Source: shi · gfl-net · Assumption 3.1; shi · case-mog · B.5.2 (which has no B_x).
"""

import math

import numpy as np
from scipy.stats import ncx2

from theorylab.data import GaussianMixture


def sample_radius(law: GaussianMixture, num_samples: int, failure: float) -> float:
    """B_x, which n samples exceed with probability δ at most.

    Args:
        law: The mixture.
        num_samples: n.
        failure: δ.

    Example:
        >>> from theorylab.data.mixtures import orthogonal_mixture
        >>> round(sample_radius(orthogonal_mixture(2, 16), num_samples=100, failure=0.01), 3)
        12.292
    """
    if num_samples < 1 or not 0 < failure < 1:
        raise ValueError(
            "num_samples must be at least 1 and failure in (0, 1), "
            f"got {num_samples} and {failure}."
        )
    far = float(np.linalg.norm(np.asarray(law.means), axis=1).max())
    beyond = math.sqrt(law.dimension) + math.sqrt(2 * math.log(num_samples / failure))
    return far + float(np.max(law.deviations)) * beyond


def longer_probability(law: GaussianMixture, radius: float) -> float:
    """Pr[‖x‖ > radius] of one sample, exactly.

    Args:
        law: The mixture.
        radius: Of the ball, at least 0.

    Example:
        >>> from theorylab.data.mixtures import orthogonal_mixture
        >>> law = orthogonal_mixture(2, 16)
        >>> longer_probability(law, 0.0), longer_probability(law, 100.0) < 1e-12
        (1.0, True)
    """
    squares = np.asarray(law.deviations, float) ** 2
    centres = (np.asarray(law.means, float) ** 2).sum(axis=1) / squares
    shares = ncx2.sf(radius**2 / squares, law.dimension, centres)
    return float(np.asarray(law.probabilities, float) @ shares)
