"""A label that needs a count: +1 if at least t of k relevant patterns occur."""

from dataclasses import dataclass
from typing import Annotated

from theorylab.data import CountLaw, independent_patterns
from theorylab.fields import Count, within

from ._tasks import Setting

STRUCTURED, FAIR = 2 / 3, 0.5  # probability of a relevant pattern, with and without structure
LEARNED = 0.99  # balanced accuracy


@dataclass(frozen=True)
class IntervalSetting(Setting):
    """Sizes of a comparison on whether at least t of k relevant patterns occur."""

    num_patterns: Count = 100  # D
    num_relevant: Count = 30  # k
    least: Count = 20  # t, the least count of y = +1
    num_pairs: Count = 100  # m, half the number of neurons
    num_samples: Count = 40000  # n
    num_test: Count = 3000
    num_steps: Annotated[int, within(3)] = 400  # T, of every method
    batch_size: Count = 500  # samples in a step; the network's first two take all

    num_records = 20
    tangent_rates = (10.0, 30.0, 100.0, 300.0)  # the best of them is 30 or 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.least > self.num_relevant:
            raise ValueError(
                f"least must be at most num_relevant = {self.num_relevant}, got {self.least}."
            )
        self.check(self.num_patterns, self.num_relevant)

    def law(self, probability: float) -> CountLaw:
        """The law where each relevant pattern occurs with this probability."""
        positive = range(self.least, self.num_relevant + 1)
        return independent_patterns(self.num_patterns, self.num_relevant, positive, probability)
