"""When to measure: as often as is wanted, but never for more than a share of the training's time.

    spent ≤ budget · trained

`trained` is the time between the calls, `spent` the time inside of them: checks, compilation,
measurements and writing. A measurement waits until the training has earned what it will cost.

The first time, a measure is compiled, which can take longer than all that follows. So measures
start one after another, each when its start has been earned. From the first to the last start there
are two halves of the budget: one for starts, and one to repeat what has started. What a start will
cost is not known; it is taken to be STARTS times what the check of the network took, which compiles
the forward pass, between 1 and 10 seconds, and afterwards as much as the longest start before it.
If it takes longer, nothing runs until that is earned too. So what is above the budget at any time
is at most one measurement, and the excess of one start over what was expected.
"""

import time
from collections.abc import Callable, Sequence
from statistics import mean

STARTS = 5.0  # starts of a convolutional network took 4 to 24 times its check
LEAST, MOST = 1.0, 10.0  # seconds that the first start is expected to take
_RECENT = 10  # measurements of which the mean is what the next will cost


class Schedule:
    """The time of a training run and of those who watch it.

    Args:
        every: Steps between two measurements, at least.
        budget: The greatest share of the training's time; None for no limit.
        clock: Tells the seconds.

    Example:
        >>> times = iter([0.0, 1.0, 11.0, 12.0])
        >>> schedule = Schedule(every=1, budget=0.5, clock=lambda: next(times))
        >>> schedule.enter(), schedule.leave(), schedule.enter(), schedule.leave()
        (None, None, None, None)
        >>> schedule.spent, schedule.trained
        (2.0, 10.0)
    """

    def __init__(
        self, every: int, budget: float | None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.every, self.budget, self.clock = every, budget, clock
        self.trained, self.spent = 0.0, 0.0
        self.starts: list[float] = []  # seconds of each
        self.check = 0.0  # seconds of the check of the network
        self._repeats: dict[str, list[float]] = {}
        self._entered, self._left = 0.0, None

    @property
    def share(self) -> float:
        """Seconds spent for each second trained."""
        return self.spent / self.trained if self.trained > 0 else 0.0

    def enter(self) -> None:
        """A call begins: what passed since the last one was the training's."""
        self._entered = self.clock()
        if self._left is not None:
            self.trained += self._entered - self._left

    def wait(self) -> None:
        """What passed since the call began was the training's too: it was waited for."""
        now = self.clock()
        self.trained += now - self._entered
        self._entered = now

    def leave(self) -> None:
        """A call ends: what passed since it began was ours."""
        self._left = self.clock()
        self.spent += self._left - self._entered

    def cost(self, names: Sequence[str]) -> float:
        """Seconds that it will take to measure these again.

        Args:
            names: Of measures that have started.
        """
        known = [self._repeats[name] for name in names if self._repeats.get(name)]
        return sum((mean(seconds[-_RECENT:]) for seconds in known), 0.0)

    def tick(self) -> None:
        """What passed since the call began is booked, while it goes on."""
        now = self.clock()
        self.spent += now - self._entered
        self._entered = now

    def took(self, name: str, seconds: float) -> None:
        """A measure was read: the first time is its start.

        Args:
            name: Of the measure.
            seconds: That it took.
        """
        if name in self._repeats:
            self._repeats[name].append(seconds)
        else:
            self.starts.append(seconds)
            self._repeats[name] = []

    def may_repeat(self, names: Sequence[str], starting: bool) -> bool:
        """Whether it is earned to measure these again.

        Args:
            names: Of measures that have started.
            starting: Whether there are others that have not.
        """
        cost = self.cost(names)
        repeats = sum((sum(each) for each in self._repeats.values()), 0.0)
        return self._earned(cost, repeats if starting else None)

    def may_start(self, names: Sequence[str]) -> bool:
        """Whether it is earned to start one more measure, and to measure these again with it.

        Args:
            names: Of measures that have started.
        """
        guess = max(self.starts, default=min(max(STARTS * self.check, LEAST), MOST))
        pot = sum(self.starts, 0.0) if names else None
        return self._earned(guess, pot) and self._earned(guess + self.cost(names))

    def _earned(self, cost: float, pot: float | None = None) -> bool:
        """Whether the budget, and the half of it from which this much was taken, allow a cost."""
        if self.budget is None:
            return True
        earned = self.budget * self.trained
        if pot is not None and pot + cost > earned / 2:
            return False
        return self.spent + cost <= earned
