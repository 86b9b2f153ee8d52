"""How much of a spike lies in the top directions of the tangent kernel.

A spike is a step from L to L′; of its rise L′ − L, the part L_≤s in the s top eigenvectors has the
share (L′_≤s − L_≤s)/(L′ − L).

Source: zhu · sgd-ntk-drop · Fig. C.8; zhu · sgd-match-rate · Fig. 4.6.
"""

import numpy as np
from jaxtyping import Float

from theorylab.dynamics import spikes


def top_shares(
    loss: Float[np.ndarray, "s t"],
    top: Float[np.ndarray, "s t"],
    ratio: float = 1.5,
    rise: float = 0.1,
) -> list[np.ndarray]:
    """The share of a part of the loss in every spike, seed by seed.

    Args:
        loss: L.
        top: L_≤s.
        ratio: How many times as large a spike makes the loss.
        rise: By how much it raises the loss, at least.
    """
    found = []
    for each, part in zip(loss, top, strict=True):
        at = spikes(each, ratio, rise)
        found.append(np.diff(part)[at] / np.diff(each)[at])
    return found


def median_top_share(
    loss: Float[np.ndarray, "s t"], top: Float[np.ndarray, "s t"]
) -> Float[np.ndarray, " k"]:
    """The median share over the spikes of every seed that has any."""
    return np.array([np.median(shares) for shares in top_shares(loss, top) if shares.size])
