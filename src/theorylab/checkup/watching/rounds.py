"""Rounds of measurements: which measures have started, and what each of them found last.

A round reads every measure that has started at the parameters of one step. A measure starts with
the parameters of the first step, of which a copy was kept, and then joins the rounds; it is
compiled only then. One that needs what was not told is missing; one that has failed several times
in a row is not asked again.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from theorylab.typing import Params

from ..measure import Measure, Row, row_of
from ..rows import MEASURES
from ..subject import Subject
from .entries import DIVERGED, Entry, entry_of, nothing
from .journal import Journal
from .pursuit import Pursuit
from .schedule import Schedule

SHARPNESS = "sharpness"
# What is read off the same products as the certified sharpness is read only with it.
COMPANIONS = frozenset(
    {
        *("stability", "hessian_spectrum", "lowest_eigenvalue"),
        *("hessian_trace", "effective_rank", "hessian_density"),
    }
)
PATIENCE = 3  # a measure that gives nothing so many times in a row is not asked again


class Moment(NamedTuple):
    """The network at a step, as far as a call tells it.

    Example:
        >>> Moment(100, jnp.ones(3), {"learning_rate": 0.1}).step
        100
    """

    step: int
    params: Params
    told: Mapping[str, Any]  # fields of the subject that have changed


class Rounds:
    """What `Watch` measures, and has measured.

    Args:
        measures: By name, in the order in which they start.
        schedule: Says what has been earned.
        journal: Where it is written.

    Example:
        >>> Rounds({}, Schedule(1, None), Journal(None, None, None)).running
        []
    """

    def __init__(
        self, measures: Mapping[str, Measure], schedule: Schedule, journal: Journal
    ) -> None:
        self.measures, self._schedule, self._journal = measures, schedule, journal
        self.subject: Subject | None = None  # at the first step
        self.first: int | None = None  # the first step, if it is still to be measured
        self.waiting = list(measures)
        self.running: list[str] = []
        self.rows: dict[str, tuple[int, Row]] = {}  # the last of each
        self._misses = dict.fromkeys(measures, 0)
        self._pursuit = Pursuit()

    def begin(self, now: Moment, make: Callable[[Params], Subject]) -> None:
        """Check the network, and keep a copy of its parameters.

        Args:
            now: The first step.
            make: Puts the subject together.
        """
        start = self._schedule.clock()
        copy = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), now.params)
        subject = make(copy)
        # What does not depend on parameters is computed now, and handed on by `Subject.at`.
        _ = (subject.flops, subject.num_params, subject.sample(1))
        self.subject = subject.at(subject.params, **now.told)
        self._schedule.check = self._schedule.clock() - start

    def lacking(self, name: str, told: Mapping[str, Any]) -> list[str]:
        """What a measure needs and was not told.

        Args:
            name: Of the measure.
            told: What a call says.
        """
        needs = self.measures[name].needs
        return [n for n in needs if told.get(n, getattr(self.subject, n)) is None]

    def may(self, told: Mapping[str, Any]) -> bool:
        """Whether something may be measured now.

        Args:
            told: What the call says.
        """
        starting = self._ready(told)
        if starting and self._schedule.may_start(self.running):
            return True
        return bool(self.running) and self._schedule.may_repeat(self.running, bool(starting))

    def measure(self, now: Moment, whatever: bool = False) -> None:
        """Start what may start, then read all that has started.

        Args:
            now: The step.
            whatever: Whether all of it, earned or not.
        """
        assert self.subject is not None, "a network must have begun"
        subject = self.subject.at(alike(now.params, self.subject.params), **now.told)
        if not bool(all_finite(subject.params)):
            names = self.running or list(self.measures)
            self._journal.write(now.step, [nothing(now.step, name, DIVERGED) for name in names])
            return
        entries = []
        running = self._due()
        while (names := self._ready(now.told)) and (
            whatever or self._schedule.may_start(self.running)
        ):
            name = names[0]
            self.waiting.remove(name)
            self.running.append(name)
            if self._at_first(name, now.step):
                running.append(name)
            else:
                entries += self._read([name], now.step, subject)
            self._schedule.tick()
        entries += self._read(running, now.step, subject)
        self._journal.write(now.step, entries)

    def _due(self) -> list[str]:
        """The measures of this round."""
        if SHARPNESS not in self.running or self._pursuit.certifies:
            return list(self.running)
        return [name for name in self.running if name not in COMPANIONS]

    def _ready(self, told: Mapping[str, Any]) -> list[str]:
        """The measures that have not started and lack nothing."""
        return [name for name in self.waiting if not self.lacking(name, told)]

    def _at_first(self, name: str, step: int) -> bool:
        """Read a measure at the first step, if that is another one, and known."""
        if self.first is None or self.first == step or self.subject is None:
            return False
        if self.lacking(name, {}):
            return False
        self._journal.write(self.first, self._read([name], self.first, self.subject))
        return name in self.running

    def _read(self, names: list[str], step: int, subject: Subject) -> list[Entry]:
        """The entries of some measures at a step; what gives nothing is told once."""
        entries = []
        for name in names:
            start = self._schedule.clock()
            row = self._row(self.measures[name], subject)
            self._schedule.took(name, self._schedule.clock() - start)
            self.rows[name] = (step, row)
            if row.status == "measured":
                self._misses[name] = 0
                entries.append(entry_of(step, row))
                continue
            self._misses[name] += 1
            if row.status == "failed":
                self._journal.failed(step, name, row.reason)
            if row.status == "failed" or self._misses[name] == 1:
                entries.append(entry_of(step, row))
            if self._misses[name] >= PATIENCE:
                self.running.remove(name)
        return entries

    def _row(self, measure: Measure, subject: Subject) -> Row:
        if measure is MEASURES.get(SHARPNESS):
            return self._pursuit.row(measure, subject)
        return row_of(measure, subject)


def alike(params: Params, like: Params) -> Params:
    """The parameters with the precision of others, which have the same tree and shapes.

    Args:
        params: As the training loop has them.
        like: As they were checked.

    Example:
        >>> alike({"w": jnp.ones(2, jnp.bfloat16)}, {"w": jnp.ones(2, jnp.float32)})["w"].dtype
        dtype('float32')
    """
    shapes = [tree_shapes(tree) for tree in (params, like)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"params must keep the tree and shapes of the first call, {shapes[1]}, got {shapes[0]}."
        )
    return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), params, like)


def tree_shapes(tree: Params) -> Any:
    """The shapes of all leaves, in the tree's form.

    Example:
        >>> tree_shapes({"w": jnp.ones((2, 3))})
        {'w': (2, 3)}
    """
    return jax.tree.map(jnp.shape, tree)


@jax.jit
def all_finite(params: Params) -> Bool[Array, ""]:
    """Whether no parameter is NaN or infinite.

    Example:
        >>> bool(all_finite([jnp.ones(2), jnp.array(jnp.nan)]))
        False
    """
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)]).all()
