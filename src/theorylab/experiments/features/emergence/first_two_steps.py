"""Two gradient steps find the relevant patterns; the first has their directions already.

The first steps of the network of `parity_six`, looked at: how noisy their gradients are, what
outer weights trained on the hidden layer after each of them achieve (probes), and whether they stay
within what the lemmas of the proof say.

The probe after one step fails because the theory's first step leaves weights of 1e-10, not because
they point elsewhere: multiplied by one constant they serve as well as those of the second step.
That step must be small, or samples are beyond the margin in the second and have no gradient (Lemma
A.13). Without noise inside, half of the neurons would be closed after it, and get no second step;
`parity_six` trains such a network, which learns with the other half.

Source: shi · exp-parity-six · Table A.1; shi · emergence-meters · A.7; shi · ch2-bounds ·
Lemmas A.13, A.17, Theorem A.21.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import (
    at_least,
    at_most,
    median_at_least,
    median_at_most,
    median_between,
)
from theorylab.data import CountLaw
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.features.emergence.audits import audit
from theorylab.features.emergence.bounds import classifier_sizes
from theorylab.features.emergence.meters import gradient_parts, sampling_floor
from theorylab.features.emergence.network import opening, preactivations
from theorylab.features.emergence.stages import Emergence
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._comparison import train_network
from ._fixed_methods import fit_variants
from ._tasks import DictionaryTask, ParitySetting, Theory, draw_task, theory_of

PRECISION = "float32"
FORMULA = r"\nabla_{w_i} L = -a_i \sum_j M_j T_j, \quad y\,g^{(1)} < 1"

TABLE = Source("shi", "exp-parity-six", "Table A.1")
METERS = Source("shi", "emergence-meters", "§2.5, A.7")
FOOTNOTE = Source("shi", "three-stage-training", "footnote 1")
LEMMAS = Source("shi", "ch2-bounds", "Lemmas A.13, A.17")

NUM_OPENED = 1000  # inputs at which the floor of the noise is estimated
PROBES = jnp.array([False, True, True, True])  # of four first layers all but the start's


@dataclass(frozen=True)
class Config(ParitySetting):
    """The first two steps of a network on a parity of patterns, and probes of both."""


PRESETS = {
    "smoke": Config(
        num_patterns=30,
        num_pairs=40,
        num_samples=16000,
        num_test=3000,
        num_steps=300,
        batch_size=250,
    ),
    "paper": Config(num_test=50000, num_seeds=10),
}


class Result(NamedTuple):
    """What was measured: seeds (s), recorded steps (t). Accuracies are of tests."""

    one_step: Float[Measured, "s t"]  # probe
    one_step_scaled: Float[Measured, "s t"]  # with weights as long as after the second step
    two_step: Float[Measured, "s t"]  # probe
    noise: Float[Measured, "s 2"]  # over signal, the median of neurons, in both steps
    floor: Float[Measured, "s 2"]  # of it, by the number of samples
    improved: Float[Measured, " s"]  # share of neurons less noisy in the second step
    dead: Float[Measured, " s"]  # share closed after the first step but for the noise inside
    beyond: Float[Measured, "s 3"]  # share of samples beyond the margin, see `Audit`
    sizes: Float[Measured, "s 3"]  # of a, w and b after two steps, over Lemma A.17's orders


def run(config: Config) -> Result:
    """Take two steps, train probes and the network, and hold all to the lemmas."""
    report("taking two steps and training probes", 0.0)
    law = config.mixture
    one = partial(_measured, law=law, theory=theory_of(law, config), config=config)
    return ensemble(one, config.keys)


def _measured(key: RandomKey, law: CountLaw, theory: Theory, config: Config) -> Result:
    """One seed."""
    of_task, of_batches = jax.random.split(key)
    task = draw_task(of_task, [law], jnp.array(0), theory, config)
    k = config.num_relevant
    trained = train_network(of_batches, task, theory, config, k)
    emerged = trained.emerged
    fitted = fit_variants(of_batches, emerged, task, theory, config, PROBES)
    noise, floor = _noise_ratios(task, emerged, k), _floors(task, emerged, theory)
    medians = jnp.median(jnp.concatenate([noise, floor]), axis=1)
    opened = preactivations(emerged.first, task.train.x[:NUM_OPENED])
    orders = classifier_sizes(k, config.num_pairs, theory.scale)
    audited = audit(task.start, emerged, trained.outer, task.train, theory.stages[0], orders)
    return Result(
        one_step=fitted.test[1, :, 0],
        one_step_scaled=fitted.test[2, :, 0],
        two_step=fitted.test[3, :, 0],
        noise=medians[:2],
        floor=medians[2:],
        improved=jnp.mean(noise[1] <= noise[0]),
        dead=jnp.mean((opened <= 0).all(axis=0)),
        beyond=audited.beyond,
        sizes=audited.sizes,
    )


def _noise_ratios(
    task: DictionaryTask, emerged: Emergence, num_relevant: int
) -> Float[Array, "2 neurons"]:
    """Noise over signal in the gradient of every neuron, in both steps."""
    first = gradient_parts(emerged.first_gradient.weights, task.start.outer, num_relevant)
    second = gradient_parts(emerged.second_gradient.weights, emerged.first.outer, num_relevant)
    return jnp.stack([part.noise / jnp.abs(part.signal) for part in (first, second)])


def _floors(task: DictionaryTask, emerged: Emergence, theory: Theory) -> Float[Array, "2 neurons"]:
    """What the number of samples allows of it."""
    x = task.train.x
    opened = [
        opening(preactivations(neurons, x[:NUM_OPENED]), stage.noise)
        for neurons, stage in zip((task.start, emerged.first), theory.stages, strict=True)
    ]
    return jnp.stack(
        [sampling_floor(each, theory.structure, theory.other, len(x)) for each in opened]
    )


LAB = "lab: chosen for this experiment; the runs it was set on were not kept"
LEARNED = "derived: 100.0 % is printed, with deviations smaller than 0.5 points"
AS_IN_SOURCE = "num_pairs >= 300 and num_samples >= 50000 and num_steps >= 600"

CLAIMS = (
    TABLE.claim(
        "A probe of the second step's weights has about 100 %: at least 99.5 %.",
        lambda r, c: median_at_least(r.two_step[:, -1], 0.995),
        quote="while Two Step gets accuracy about 100%",
        regime=AS_IN_SOURCE,
        demand=LEARNED,
    ),
    TABLE.claim(
        "A probe of the first step's weights, as they are, is at chance: about 52 %.",
        lambda r, c: median_between(r.one_step[:, -1], 0.48, 0.53),
        quote="gets test accuracy about 52%",
        demand="lab: [48, 53] %",
    ),
    *TABLE.erratum(
        printed=(
            "The first step's features are not good enough: a second step must improve them.",
            lambda r, c: median_at_most(r.one_step_scaled[:, -1], 0.9),
        ),
        corrected=(
            "The first step's weights, multiplied by one constant, serve a probe: it is beyond "
            "59/64, the last plateau, by a point or more.",
            lambda r, c: median_at_least(r.one_step_scaled[:, -1], 59 / 64 + 0.01),
        ),
        quote="they need to be improved in the second step",
    ),
    METERS.found(
        "On average the second gradient is less noisy than the first in 95 % of neurons.",
        lambda r, c: at_least(r.improved.mean(), 0.95),
        demand=LAB,
    ),
    METERS.found(
        "In both steps noise over signal is, on average, within 20 % of what n samples allow.",
        lambda r, c: at_most(np.abs((r.noise / r.floor).mean(axis=0) - 1).max(), 0.2),
        formula=r"\sqrt{p_o(1-p_o)/n}\,\sqrt{E[o^2]}/(\gamma E[o])",
        demand=LAB,
    ),
    FOOTNOTE.found(
        "Without noise inside, about half of the neurons would be closed after the first step.",
        lambda r, c: median_between(r.dead, 0.35, 0.65),
        demand="derived: those with a negative bias, ½; 0.15 for some ten neurons",
    ),
    LEMMAS.claim(
        "After the first step no sample is beyond the margin, nor after one of size 1e-3.",
        lambda r, c: median_at_most(r.beyond[:, :2].max(axis=1), 0.0),
        formula=r"y\,g^{(1)} < 1",
        demand="source",
    ),
    LEMMAS.control(
        "After a first step of size 1, times 300/m, many samples are: 40 % or more.",
        lambda r, c: median_at_least(r.beyond[:, 2], 0.4),
        demand="lab: networks of 40 pairs (seeds 101, 102) have 50 to 84 %",
    ),
    LEMMAS.claim(
        "After two steps weights and biases are at most ten times the lemma's σ̃/k and 1/k².",
        lambda r, c: median_at_most(r.sizes[:, 1:].max(axis=1), 10.0),
        formula=r"\|w^{(2)}\| = O(\tilde\sigma/k), \quad |b^{(2)}| = O(1/k^2)",
        demand="lab: 10 for the constants that the lemma leaves open",
    ),
    LEMMAS.control(
        "With the constant 1 they are not: some weight or bias is larger.",
        lambda r, c: median_at_least(r.sizes[:, 1:].max(axis=1), 1.0),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Probes in training, and the noise of both gradients."""
    figure, (probes, noise) = panels("test accuracy of probes", "noise over signal of gradients")
    named = {
        "first step": result.one_step,
        "first step, rescaled": result.one_step_scaled,
        "second step": result.two_step,
    }
    curves(probes, config.steps, named)
    label_axes(probes, "steps of the probe")
    curves(noise, (1, 2), {"measured": result.noise, "floor of n samples": result.floor}, "o-")
    label_axes(noise, "step", logarithmic="y")
    return figure
