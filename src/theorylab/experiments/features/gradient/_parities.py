"""Sparse parities of two and of four fair signs, each at some dimensions.

Source: shi · case-uniform-parity · B.5.5.
"""

from dataclasses import dataclass

import numpy as np

from theorylab.fields import Checked, Increasing, Odd, Seed


@dataclass(frozen=True)
class Parities(Checked):
    """The dimensions at which parities are measured."""

    pair_dimensions: Increasing[Odd] = (33, 65, 129)  # d for k = 2
    four_dimensions: Increasing[Odd] = (21, 33, 45)  # d for k = 4
    seed: Seed = 0  # of all randomness

    def __post_init__(self) -> None:
        super().__post_init__()
        for bits, dimension in self.cases:
            if not dimension > bits:
                raise ValueError(f"dimensions must be above k = {bits}, got {dimension}.")

    @property
    def cases(self) -> list[tuple[int, int]]:
        """(k, d) of every case."""
        return [(2, d) for d in self.pair_dimensions] + [(4, d) for d in self.four_dimensions]

    @property
    def bits(self) -> np.ndarray:
        """K of every case."""
        return np.array([bits for bits, _ in self.cases])

    @property
    def dimensions(self) -> np.ndarray:
        """D of every case."""
        return np.array([dimension for _, dimension in self.cases])

    def only(self, bits: int, *measured: np.ndarray) -> list[np.ndarray]:
        """The columns of measurements that belong to one k."""
        return [values[..., self.bits == bits] for values in measured]

    def growth(self, values: np.ndarray) -> np.ndarray:
        """log-ratios of values at neighbouring dimensions, of each k."""
        return np.concatenate([np.diff(np.log(*self.only(bits, values))) for bits in (2, 4)])
