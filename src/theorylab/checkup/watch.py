"""`Watch`: the measures of the check-up while a network trains, for a share of its time.

    params of a step ─► due? ─► rows of the card at these parameters ─► curves, CSV, events, page

A call that measures nothing takes microseconds. A measurement waits until the training has earned
its cost (`watching.schedule`); parameters of the first step are kept until then, so that every
curve begins where training begins. Sample, sizes and programs stay the same for the whole run:
after a measure has started, nothing is compiled.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Unpack

import jax

from theorylab.numerics.counted import is_traced
from theorylab.training import Loss
from theorylab.typing import Apply, DataFrame, Figure, Inputs, Params, RandomKey

from .card import Card
from .measure import Measure, Row
from .rows import MEASURES
from .rules import verdict_of
from .subject import Subject, subject_of
from .targets import loss_of
from .watching.entries import DIVERGED, GIVEN, Curve, Entry, curve_of, nothing
from .watching.facts import Facts
from .watching.journal import Callback, Failure, Journal
from .watching.rounds import Moment, Rounds, all_finite
from .watching.schedule import Schedule

DEFAULT = ("sharpness", "stability", "critical_rate", "kernel_drift", "agop_rank", "fit")
ALIASES = {"eta_crit": "critical_rate", "agop": "agop_rank"}


class Watch:
    """Measure a network inside of a training loop: `watch(step, params)`.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs.
        loss: "cross_entropy", "mse", "logistic", or a `Loss` of `theorylab.training`.
        x: Inputs that it is trained on, all or some of them.
        y: Their targets.
        every: Steps between two measurements, at least.
        measures: Names of rows of the card, or measures of your own; by default those of sharpness,
            stability, critical rate, kernel drift, AGOP rank and fit that apply.
        budget: What may be added to the time of training, as a share of it; None for no limit.
        seconds: For how many seconds of computing a round is sized, at most: fewer make the samples
            smaller.
        key: Draws samples and probes; `jax.random.key(0)` unless told otherwise.
        csv: A file to write to; if it is there, the run goes on, and its steps are not repeated.
        tensorboard: A folder for a file of events.
        callback: Gets {"step": …, "theory/sharpness": …}, such as `wandb.log` or `logging.info`.
        clock: Tells the seconds.
        **facts: What else is known: `learning_rate=`, `optimizer=`, `initial_params=`, `outputs=`;
            `Facts` says what each is.

    Example:
        >>> import jax.numpy as jnp
        >>> line, x = lambda w, x: x @ w, jnp.eye(4)
        >>> watch = Watch(line, "mse", x, x[:, :1], every=10, measures=["sharpness"], budget=None)
        >>> w = jnp.ones((4, 1))
        >>> for step in range(20):
        ...     w = w - 0.1 * jax.grad(lambda w: ((x @ w - x[:, :1]) ** 2).mean())(w)
        ...     watch(step, w)
        >>> watch.curve("sharpness").steps.tolist()
        [0, 10]
    """

    def __init__(
        self,
        apply: Apply,
        loss: str | Loss,
        x: Inputs,
        y: Any,
        *,
        every: int = 100,
        measures: Iterable[str | Measure] | None = None,
        budget: float | None = 0.1,
        seconds: float = 10.0,
        key: RandomKey | None = None,
        csv: str | Path | None = None,
        tensorboard: str | Path | None = None,
        callback: Callback | None = None,
        clock: Callable[[], float] = time.perf_counter,
        **facts: Unpack[Facts],
    ) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}.")
        if budget is not None and not budget > 0:
            raise ValueError(f"budget must be positive, or None for no limit, got {budget}.")
        self.measures = chosen(measures)
        self._network = (apply, x, y, jax.random.key(0) if key is None else key)
        self._known: dict[str, Any] = {"loss": loss_of(loss), "budget": seconds, **facts}
        self._journal = Journal(
            None if csv is None else Path(csv),
            None if tensorboard is None else Path(tensorboard),
            callback,
        )
        self._schedule = Schedule(every, budget, clock)
        self._rounds = Rounds(self.measures, self._schedule, self._journal)
        self._quiet = measures is None  # nobody asked for what is missing
        self._last = last_step(self._journal.entries, given=False)
        self._told = last_step(self._journal.entries, given=True)

    def __call__(
        self,
        step: int,
        params: Params | Callable[[], Params],
        optimizer_state: Any = None,
        learning_rate: float | None = None,
        **scalars: Any,
    ) -> None:
        """Tell the parameters of a step; measure them if it is time to.

        Args:
            step: Its number; it rises from call to call.
            params: The parameters, or a function without arguments that gives them, which is only
                called when they are looked at.
            optimizer_state: Of optax, for measures that look at it.
            learning_rate: If it changes.
            **scalars: Numbers that belong to the curves, such as `loss=`.
        """
        self._schedule.enter()
        try:
            if is_traced((step, params, scalars)):
                raise TypeError(
                    "a Watch must be called with values, got traced ones: call it outside of jit,"
                    " grad, vmap and scan, in the loop around them."
                )
            told = {"optimizer_state": optimizer_state, "learning_rate": learning_rate}
            told = {name: value for name, value in told.items() if value is not None}
            self._look(Moment(int(step), params, told), scalars)
        finally:
            self._schedule.leave()

    def measure(self, step: int, params: Params | Callable[[], Params], **told: Any) -> None:
        """Measure now, whatever it costs: at the end of a run, say.

        Args:
            step: The number of the step.
            params: The parameters.
            **told: `learning_rate=` and `optimizer_state=`, if they are known.
        """
        self._schedule.enter()
        try:
            now = Moment(int(step), params, told)
            if self._rounds.subject is None:
                self._begin(now)
            self._round(now, whatever=True)
        finally:
            self._schedule.leave()

    @property
    def entries(self) -> list[Entry]:
        """All that was found, in the order in which it was found."""
        return self._journal.entries

    @property
    def failures(self) -> list[Failure]:
        """What went wrong while training went on."""
        return self._journal.failures

    @property
    def share(self) -> float:
        """What was added to the time of training so far, as a share of it."""
        return self._schedule.share

    @property
    def curves(self) -> dict[str, Curve]:
        """All curves by name, also of numbers that were told."""
        names = dict.fromkeys(each.measure for each in self.entries if each.value == each.value)
        return {name: self.curve(name) for name in names}

    def curve(self, name: str) -> Curve:
        """The curve of a measure so far: steps, values, and ends of their intervals.

        Args:
            name: Of a measure, or of a number that was told.
        """
        return curve_of(self.entries, ALIASES.get(name, name))

    @property
    def card(self) -> Card:
        """The last row of every measure, and what follows from them."""
        rows = tuple(row for _, row in self.rows.values())
        subject = self._rounds.subject
        about: dict[str, str | float] = {
            "step": float(max((step for step, _ in self.rows.values()), default=0)),
            "seconds": sum((row.seconds for row in rows), 0.0),
        }
        if subject is not None:
            about |= {
                "parameters": float(subject.num_params),
                "inputs": float(subject.num_inputs),
                "outputs": float(subject.num_outputs),
                "loss": f"{subject.loss.kind}, {subject.loss.normalization}",
            }
        return Card(rows, verdict_of(rows), about)

    @property
    def rows(self) -> dict[str, tuple[int, Row]]:
        """The last row of every measure, with the step at which it was read."""
        found = self._rounds.rows
        return {name: found[name] for name in self.measures if name in found}

    def to_pandas(self) -> DataFrame:
        """All entries as a table of pandas: one row for each number."""
        from .watching.shown import as_table

        return as_table(self.entries)

    def plot(self) -> Figure:
        """All curves; that of sharpness with the edge 2/η, where the learning rate is known."""
        from .watching.shown import drawn_curves

        return drawn_curves(self.curves, self.measures, self._edge)

    def page(self, path: str | Path) -> Path:
        """Write curves and the last card as one HTML file that needs nothing else.

        Args:
            path: The file; its folder must be there.
        """
        from .watch_page import write_page
        from .watching.shown import RATE, drawn_curves

        curves = self.curves
        rates = {RATE: curves.pop(RATE)} if RATE in curves else {}
        figures = {
            name: drawn_curves({name: found, **rates}, self.measures, self._edge)
            for name, found in curves.items()
        }
        return write_page(Path(path), repr(self), figures, self.rows, self.card.verdict)

    @property
    def _edge(self) -> float | None:
        """The number c of the edge of stability c/η."""
        from .watching.shown import edge

        return edge(self._known.get("optimizer"), self._known.get("momentum"))

    def __repr__(self) -> str:
        count = len({each.step for each in self.entries if each.status == "measured"})
        return f"Watch({', '.join(self.measures)}: {count} steps, {self.share:.1%} of the time)"

    def _repr_html_(self) -> str:
        from .watch_page import as_html

        return as_html(self.rows)

    def _look(self, now: Moment, scalars: dict[str, Any]) -> None:
        """Begin, if this is the first call; keep what is told; measure, if it is time to."""
        first = self._rounds.subject is None
        if first and self._from(self._last, now.step):
            self._begin(now)
            self._schedule.tick()
        if self._from(self._told, now.step):
            self._tell(now, scalars)
        if self._rounds.subject is None or not self._from(self._last, now.step):
            return
        if self._rounds.may(now.told):
            self._round(now)
        elif first:
            self._last = now.step  # it is kept, and measured later

    def _from(self, last: int | None, step: int) -> bool:
        """Whether enough steps have passed."""
        return last is None or step >= last + self._schedule.every

    def _begin(self, now: Moment) -> None:
        """Check the network; mistakes of its user are raised here, before training begins."""
        params = given(now.params)
        jax.block_until_ready(params)
        self._schedule.wait()
        if not bool(all_finite(params)):
            names = self.measures
            self._journal.write(now.step, [nothing(now.step, name, DIVERGED) for name in names])
            self._last = now.step
            return

        def make(copy: Params) -> Subject:
            apply, x, y, key = self._network
            known = dict(self._known)
            subject = subject_of(apply, copy, x, y, key, **known)
            resumed = self._journal.resumed or subject.initial_params is not None
            return subject if resumed else subject.at(subject.params, initial_params=subject.params)

        self._rounds.begin(now._replace(params=params), make)
        self._rounds.first = None if self._journal.resumed else now.step
        if not self._quiet:
            for name in self.measures:
                if gaps := self._rounds.lacking(name, now.told):
                    words = ", ".join(f"{gap}=" for gap in gaps)
                    self._journal.failed(now.step, name, f"it is measured once it gets {words}")

    def _round(self, now: Moment, whatever: bool = False) -> None:
        """Measure, and survive whatever happens."""
        if self._rounds.subject is None:
            return
        try:
            params = given(now.params)
            jax.block_until_ready(params)
            self._schedule.wait()
            self._rounds.measure(now._replace(params=params), whatever)
        except Exception as error:
            self._journal.failed(now.step, "Watch", error)
        self._last = now.step

    def _tell(self, now: Moment, scalars: dict[str, Any]) -> None:
        """Keep numbers that the training loop has."""
        rate = {"learning_rate": now.told.get("learning_rate", self._known.get("learning_rate"))}
        entries = []
        for name, value in {**rate, **scalars}.items():
            if value is None:
                continue
            try:
                jax.block_until_ready(value)
                self._schedule.wait()
                if name in self.measures:
                    raise ValueError(f"{name} must be named otherwise, since it is measured here")
                number = float(value)
                entries.append(Entry(now.step, 0.0, name, number, number, number, "exact", GIVEN))
            except Exception as error:
                self._journal.failed(now.step, name, error)
        if entries:
            self._journal.write(now.step, entries)
            self._told = now.step
        self._schedule.tick()


def chosen(measures: Iterable[str | Measure] | None) -> dict[str, Measure]:
    """The measures that are asked for, by name.

    Args:
        measures: Names of rows of the card, or measures; None for the default.

    Example:
        >>> list(chosen(["sharpness"]))
        ['sharpness']
    """
    if measures is None:
        return {name: MEASURES[name] for name in DEFAULT if name in MEASURES}
    found = {}
    for each in [measures] if isinstance(measures, str | Measure) else measures:
        name = ALIASES.get(each, each) if isinstance(each, str) else each.name
        measure = MEASURES.get(name) if isinstance(each, str) else each
        if measure is None:
            known = ", ".join((*MEASURES, *ALIASES))
            raise ValueError(f"measures must be out of {known}, got {each!r}.")
        found[name] = measure
    return found


def given(params: Params | Callable[[], Params]) -> Params:
    """The parameters, or those that a function gives; a module that can be called is no function.

    Args:
        params: A tree, or a function without arguments.

    Example:
        >>> given(lambda: 3.0), given(3.0)
        (3.0, 3.0)
    """
    return params() if isinstance(params, FunctionType | MethodType | partial) else params


def last_step(entries: Iterable[Entry], given: bool) -> int | None:
    """The last step of what was measured, or of what was told.

    Args:
        entries: Of a run that goes on.
        given: Whether of what was told.

    Example:
        >>> last_step([nothing(3, "sharpness", "failed")], given=False)
        3
    """
    steps = [each.step for each in entries if (each.status == GIVEN) == given]
    return max(steps, default=None)
