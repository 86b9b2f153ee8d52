"""Sums of k numbers modulo p in several cases, which the experiments of this folder share."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from theorylab.data.modular import num_sums
from theorylab.experiments.drawing import COLOURS

Case = tuple[int, int]  # (k, p)


def paired(num_terms: Sequence[int], moduli: Sequence[int]) -> list[Case]:
    """(k, p) of every case.

    Raises:
        ValueError: There are not as many of both, or there are too many sums in one case.

    Example:
        >>> paired((2, 3), (7, 5))
        [(2, 7), (3, 5)]
    """
    if len(num_terms) != len(moduli):
        raise ValueError(f"num_terms and moduli must be as many, got {num_terms} and {moduli}.")
    cases = list(zip(num_terms, moduli, strict=True))
    for case in cases:
        num_sums(*case)  # refuses too many
    return cases


def by_case(axis: Axes, cases: Sequence[Case], named: dict[str, np.ndarray]) -> None:
    """Draw every seed's value over the cases, one colour for each name; values are (c, s)."""
    for place, (name, values) in enumerate(named.items()):
        lines = axis.plot(range(len(cases)), values, "o", alpha=0.6, color=COLOURS[place])
        lines[0].set_label(name)
    axis.set_xticks(range(len(cases)), [f"{k}, {p}" for k, p in cases])
    axis.set_xlabel("k, p")
    axis.legend(fontsize=7)
