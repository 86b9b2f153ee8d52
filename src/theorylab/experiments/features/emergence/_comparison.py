"""A network against fixed features on the same data, with the same number of steps.

    network     all three stages, and where its weights point on the way
    tangent     the linear model of the network's gradient at its start (finite-width NTK)
    random      only the outer weights of the start are trained
    probes      only the outer weights are trained, after the first or the second step

`compare_laws` does all that for several laws of data and many seeds, in one compiled program;
`train_laws` trains the network alone.

Accuracy is scored twice: as it is, and with both classes counting equally.

Source: shi · exp-parity-six · Table A.1; shi · emergence-meters · A.7.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from theorylab.data import CountLaw
from theorylab.features.emergence.meters import cosines, relevant_direction
from theorylab.features.emergence.network import outputs
from theorylab.features.emergence.stages import Emergence, classify, emerge
from theorylab.training import ensemble
from theorylab.typing import RandomKey

from ._fixed_methods import Scores, batches, fit_tangents, fit_variants, only_if, scores
from ._tasks import DictionaryTask, Setting, Theory, draw_task

Methods = Literal["network", "fixed", "probes"]  # each with all that stand before it
AFTER_TWO_STEPS = 2  # place among the cosines of `Training`
_Compare = Callable[[RandomKey, Callable[[RandomKey], DictionaryTask], Theory, Int[Array, ""]], Any]


class Training(NamedTuple):
    """The network, in three stages."""

    scored: Scores
    emerged: Emergence
    cosines: Float[Array, "*seeds 4"]  # the largest: at the start, after steps 1 and 2, at the end
    outer: Float[Array, "*seeds neurons"]  # a, at the end


def train_network(
    key: RandomKey,
    task: DictionaryTask,
    theory: Theory,
    setting: Setting,
    num_relevant: int,
) -> Training:
    """Train the network in three stages, and see where its weights point on the way."""
    emerged = emerge(task.start, task.train, theory.stages, theory.class_weights)
    run = classify(
        emerged.second,
        task.train,
        batches(setting),
        setting.steps - 2,
        lambda neurons: scores(outputs(neurons, task.test.x), task.test.y),
        theory.rates,
        key,
        theory.class_weights,
    )
    trained = scores(outputs(run.params, task.train.x), task.train.y)
    direction = relevant_direction(task.train.x.shape[1], num_relevant)
    rest = jnp.tile((task.outside**2).sum(axis=1), 2)
    kept = theory.stages[0].keep_weights
    found = [
        cosines(task.start.weights, direction, rest),
        cosines(emerged.first.weights, direction, kept**2 * rest),
        cosines(emerged.second.weights, direction),
        cosines(run.params.weights, direction),
    ]
    largest = jnp.stack([each.max() for each in found])
    return Training(Scores(run.records, trained), emerged, largest, run.params.outer)


class LawComparison(NamedTuple):
    """All methods, with laws and seeds as leading axes; NaN where a method is not asked for.

    The third axis of `probes` is: first step, first step normalised, second step.
    """

    network: Scores
    tangent: Scores
    random: Scores
    probes: Scores
    cosines: Float[Array, "laws seeds 4"]  # see `Training`
    weights: Float[Array, "3 neurons d"]  # of the first law and seed: start, steps 1 and 2


def compare_laws(
    keys: Key[Array, " seeds"],
    laws: Sequence[CountLaw],
    theories: Sequence[Theory],
    setting: Setting,
    methods: Sequence[Methods],
) -> LawComparison:
    """Train the methods on every law, for all seeds, in one compiled program.

    Args:
        keys: One for every seed; laws share them.
        laws: The laws of the data, with as many patterns and relevant ones.
        theories: What the start and the first two steps are made from, for every law.
        setting: Sizes.
        methods: What is trained on each law: the "network" alone, "fixed" features too, or
            "probes" of the first two steps as well.
    """
    if len(methods) != len(laws):
        raise ValueError(f"laws and methods must be as many, got {len(laws)} and {len(methods)}.")
    extents = jnp.array([get_args(Methods).index(each) for each in methods])
    num_variants = 4 if "probes" in methods else 1
    pairs = setting.num_pairs

    def one(
        key: RandomKey,
        task_of: Callable[[RandomKey], DictionaryTask],
        theory: Theory,
        which: Int[Array, ""],
    ) -> LawComparison:
        of_task, of_batches = jax.random.split(key)
        task, extent = task_of(of_task), extents[which]
        trained = train_network(of_batches, task, theory, setting, laws[0].num_relevant)
        first, second = trained.emerged.first, trained.emerged.second
        wanted = jnp.arange(num_variants) < jnp.array([0, 1, 4])[extent]
        fitted = fit_variants(of_batches, trained.emerged, task, theory, setting, wanted)
        halves = jnp.concatenate([task.start.weights[:pairs], task.outside], axis=1)
        padding = ((0, 0), (0, task.outside.shape[1]))
        return LawComparison(
            network=trained.scored,
            tangent=only_if(extent > 0, lambda: fit_tangents(of_batches, task, theory, setting)),
            random=jax.tree.map(lambda leaf: leaf[0], fitted),
            probes=jax.tree.map(lambda leaf: leaf[1:], fitted),
            cosines=trained.cosines,
            weights=jnp.stack(
                [
                    jnp.tile(halves, (2, 1)),
                    *(jnp.pad(neurons.weights, padding) for neurons in (first, second)),
                ]
            ),
        )

    found = _over_laws(keys, laws, theories, setting, one)
    return found._replace(weights=found.weights[0, 0])


def train_laws(
    keys: Key[Array, " seeds"],
    laws: Sequence[CountLaw],
    theories: Sequence[Theory],
    setting: Setting,
) -> Training:
    """Train the network alone on every law, for all seeds, in one compiled program.

    Args:
        keys: One for every seed; laws share them.
        laws: The laws of the data, with as many patterns and relevant ones.
        theories: What the start and the first two steps are made from, for every law.
        setting: Sizes.
    """

    def one(
        key: RandomKey,
        task_of: Callable[[RandomKey], DictionaryTask],
        theory: Theory,
        which: Int[Array, ""],
    ) -> Training:
        of_task, of_batches = jax.random.split(key)
        return train_network(of_batches, task_of(of_task), theory, setting, laws[0].num_relevant)

    return _over_laws(keys, laws, theories, setting, one)


def _over_laws(
    keys: Key[Array, " seeds"],
    laws: Sequence[CountLaw],
    theories: Sequence[Theory],
    setting: Setting,
    one: _Compare,
) -> Any:
    """What `one` gives for every law and seed, these two as leading axes."""
    if not len(laws) == len(theories) >= 1:
        raise ValueError("laws and theories must be as many, and not none.")
    if len({(law.num_patterns, law.num_relevant) for law in laws}) != 1:
        raise ValueError("laws must have as many patterns and as many relevant ones.")
    setting.check(laws[0].num_patterns, laws[0].num_relevant)
    num_laws, num_seeds = len(laws), len(keys)
    stacked = jax.tree.map(lambda *leaves: jnp.array(leaves, float), *theories)
    different = list(dict.fromkeys(laws))  # a law that comes twice is compiled once
    places = jnp.array([different.index(law) for law in laws])

    def of_seed(given: tuple[Array, Array]) -> Any:
        which, key = given
        theory = jax.tree.map(lambda leaf: leaf[which], stacked)
        place = places[which]

        def task_of(key: RandomKey) -> DictionaryTask:
            return draw_task(key, different, place, theory, setting, setting.dimension)

        return one(key, task_of, theory, which)

    which = jnp.repeat(jnp.arange(num_laws), num_seeds)
    every = jnp.tile(jnp.arange(num_seeds), num_laws)
    return jax.tree.map(
        lambda leaf: jnp.reshape(leaf, (num_laws, num_seeds, *leaf.shape[1:])),
        ensemble(of_seed, (which, keys[every])),
    )
