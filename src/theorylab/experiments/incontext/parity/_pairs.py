"""What the experiments on parity in context share."""

from dataclasses import dataclass
from typing import Annotated

from theorylab.fields import OpenFraction, Seeded, within


@dataclass(frozen=True)
class Parity(Seeded):
    """Parity of two coordinates out of d = 2^digits, of which pairs below k are frequent."""

    digits: Annotated[int, within(2, 8)] = 3  # log₂ d
    frequent_digits: Annotated[int, within(1, 7)] = 2  # log₂ k
    bias: OpenFraction = 0.1  # γ, below ¼

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frequent_digits >= self.digits:
            got = f"got {self.frequent_digits} and {self.digits}"
            raise ValueError(f"frequent_digits must be below digits, {got}.")
        if self.bias >= 0.25:
            raise ValueError(f"bias must be below 1/4, got {self.bias}.")

    @property
    def dimension(self) -> int:
        """D."""
        return 2**self.digits

    @property
    def num_frequent(self) -> int:
        """K."""
        return 2**self.frequent_digits
