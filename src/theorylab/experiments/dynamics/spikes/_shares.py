"""What a spike does: where in the kernel it lies, and how the kernel changes after it.

A spike is a step from L to L′ > 1.5 L with L′ − L > 0.1. Of its rise, the part L_≤s in the s top
eigenvectors of the tangent kernel K has the share (L′_≤s − L_≤s)/(L′ − L). The kernel is compared
three steps later: a spike takes some steps to fall back.

Source: zhu · sgd-ntk-drop · Fig. 4.7, C.8; zhu · sgd-match-rate · Fig. 4.6; zhu · cyclic-lr · C.3.
"""

import numpy as np
from jaxtyping import Bool, Float

from theorylab.dynamics import WatchedSteps, spikes

WAIT = 3  # steps after a spike until ‖K‖ is compared


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


def followed_spikes(loss: Float[np.ndarray, "s t"]) -> Bool[np.ndarray, "s w"]:
    """Which steps spike, but for the last few, after which ‖K‖ is not known."""
    return spikes(loss)[..., : -WAIT + 1]


def later_changes(norm: Float[np.ndarray, "s t"]) -> Float[np.ndarray, "s w"]:
    """The relative change of ‖K‖ over the next three steps, for every step but the last few."""
    return norm[..., WAIT:] / norm[..., :-WAIT] - 1


def kernel_falls(*runs: WatchedSteps) -> tuple[int, int]:
    """After how many of all spikes ‖K‖ is smaller, and how many spikes there are."""
    after = [later_changes(each.kernel_norm)[followed_spikes(each.loss)] for each in runs]
    changes = np.concatenate(after)
    return int((changes < 0).sum()), len(changes)
