"""More heads see more noise: a small parity network is more accurate on frequent tasks.

Both networks solve the frequent pairs on prompts without end. On prompts of M examples each sees
the noise of the context in the span of its heads: in log₂ k + 1 directions the small one, in
log₂ d + 1 the large one, which is the ratio of noise powers. So the small network is more accurate,
once there are enough examples for either. It is a sensitivity to noise and nothing else: as the
networks are even in the labels of the context, flipping all of them changes no prediction, and they
cannot show that larger models follow flipped labels.

Source: shi · parity-noise · Theorem 5.5.2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_least,
    at_most,
    holds,
    identity,
    median_at_least,
    median_at_most,
    median_between,
)
from theorylab.experiments.drawing import panels
from theorylab.incontext import (
    all_pairs,
    binary_heads,
    noise_projection,
    parity_margins,
    parity_outputs,
    parity_prompts,
    parity_tasks,
    summaries,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"\frac{E\|P_{D_1}\Xi\|^2}{E\|P_{D_2}\Xi\|^2} = \frac{\nu_1 + 1}{\nu_2 + 1}"

THEOREM = Source("shi", "parity-noise", "Theorem 5.5.2")
FLIPS = Source("shi", "parity-noise", "§5.5, label flips")


@dataclass(frozen=True)
class Config:
    """Prompts of several lengths from frequent tasks, in ± coordinates."""

    digits: int = 4  # log₂ d
    frequent_digits: int = 2  # log₂ k
    bias: float = 0.1  # γ
    examples: tuple[int, ...] = (16, 64, 256)  # M, growing
    num_prompts: int = 2000  # of each seed and length
    num_seeds: int = 10  # at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.frequent_digits < self.digits <= 8:
            raise ValueError(
                "frequent_digits must be at least 1 and below digits, which are at most 8, "
                f"got {self.frequent_digits} and {self.digits}."
            )
        if not 0 < self.bias < 0.25:
            raise ValueError(f"bias must be between 0 and 1/4, got {self.bias}.")
        if not self.examples or list(self.examples) != sorted(set(self.examples)):
            raise ValueError(f"examples must grow, got {self.examples}.")
        if not 1 <= self.examples[0] <= self.examples[-1] <= 100000:
            raise ValueError(f"examples must be between 1 and 100000, got {self.examples}.")
        for name in ("num_prompts", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**6:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")


PRESETS = {
    "smoke": Config(digits=3, frequent_digits=1, examples=(16, 128), num_prompts=400, num_seeds=6),
    "paper": Config(examples=(16, 64, 256, 1024), num_prompts=20000),
}


class Result(NamedTuple):
    """What was measured: axes lengths (m), networks (2: small and large), seeds (s)."""

    examples: Int[np.ndarray, " m"]
    bias: float
    accuracy: Float[np.ndarray, "m 2 s"]
    hinge: Float[np.ndarray, "m 2 s"]
    changed: Float[np.ndarray, "m 2 s"]  # largest change of an output when all labels are flipped
    inverted: Float[np.ndarray, "m 2 s"]  # accuracy then
    half: Float[np.ndarray, "m 2 s"]  # accuracy with half of the labels flipped
    fluctuation: Float[np.ndarray, "m s"]  # of what is read at the pair, about 2γ
    noise: Float[np.ndarray, "2 s"]  # M times the mean of ‖PΞ‖²
    ranks: Float[np.ndarray, " 2"]  # traces of both projections
    digits: Int[np.ndarray, " 2"]
    singular: Float[np.ndarray, " 2"]  # least over largest singular value of ZᵀZ
    clean: Float[np.ndarray, " 2"]  # least margins on frequent pairs, on prompts without end


def memory(config: Config) -> int:
    """Bytes of one seed's prompts of the greatest length, their labels and copies."""
    return 4 * 8 * config.num_prompts * (max(config.examples) + 1) * 2**config.digits


def run(config: Config) -> Result:
    """Measure both networks on the same prompts."""
    d, k = 2**config.digits, 2**config.frequent_digits
    counts = (config.frequent_digits, config.digits)
    networks = [binary_heads(digits, d, config.bias) for digits in counts]
    projections = [noise_projection(heads) for heads in networks]
    report("measuring both networks", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    measured = ensemble(lambda key: _measured(key, config, networks, projections), keys)
    stacked = [np.moveaxis(np.asarray(part), 0, -1) for part in measured]
    grams = [np.asarray(heads.diagonals @ heads.diagonals.T, float) for heads in networks]
    singular = [np.linalg.svd(gram, compute_uv=False) for gram in grams]
    frequent = all_pairs(d)[(all_pairs(d) < k).all(axis=1)]
    margins = [parity_margins(heads, frequent, config.bias).min() for heads in networks]
    return Result(
        np.array(config.examples),
        config.bias,
        *stacked,
        ranks=np.array([float(jnp.trace(part)) for part in projections]),
        digits=np.array(counts),
        singular=np.array([values[-1] / values[0] for values in singular]),
        clean=np.array([float(margin) for margin in margins]),
    )


def _measured(
    key: RandomKey, config: Config, networks: list, projections: list
) -> tuple[jax.Array, ...]:
    """The fields of the result from accuracy to noise, for one seed."""
    d, b = 2**config.digits, config.num_prompts
    task_key, prompt_key, flip_key, noise_key = jax.random.split(key, 4)
    tasks = parity_tasks(task_key, b, d, 2**config.frequent_digits)
    longest = parity_prompts(prompt_key, tasks, config.examples[-1], d, config.bias)
    flips = 1.0 - 2.0 * jax.random.bernoulli(flip_key, 0.5, longest.y.shape)
    signs = 2.0 * jax.random.bernoulli(noise_key, 0.5, (b * config.examples[0], d)) - 1.0
    noise = signs.reshape(b, -1, d).mean(axis=1)
    rows = []
    for m in config.examples:  # shorter prompts are the beginnings of longer ones
        prompts = longest._replace(x=longest.x[:, :m], y=longest.y[:, :m])
        read = jnp.take_along_axis(summaries(prompts), tasks[:, :1], axis=1)[:, 0]
        turned = prompts._replace(y=-prompts.y)
        mixed = prompts._replace(y=prompts.y * flips[:, :m])
        pairs = [
            [parity_outputs(heads, given) for given in (prompts, turned, mixed)]
            for heads in networks
        ]
        rows.append((*_compared(pairs, prompts.target), read.std()))
    powers = [config.examples[0] * ((noise @ part) ** 2).sum(axis=1).mean() for part in projections]
    return *(jnp.stack(part) for part in zip(*rows, strict=True)), jnp.stack(powers)


def _compared(pairs: list[list[jax.Array]], target: jax.Array) -> tuple[jax.Array, ...]:
    """Accuracy, hinge loss, changes by flips, accuracy with all and half of the labels flipped."""

    def right(outputs: jax.Array) -> jax.Array:
        return (1 + jnp.sign(outputs * target)).mean() / 2  # a tie is right by half

    return (
        jnp.stack([right(plain) for plain, _, _ in pairs]),
        jnp.stack([jax.nn.relu(1 - plain * target).mean() for plain, _, _ in pairs]),
        jnp.stack([jnp.abs(plain - turned).max() for plain, turned, _ in pairs]),
        jnp.stack([right(turned) for _, turned, _ in pairs]),
        jnp.stack([right(mixed) for _, _, mixed in pairs]),
    )


# Accuracy gaps: the catalogue's 5 points at M = 256; elsewhere no loss of more than a point.
CLAIMS = (
    Claim(
        "Both networks solve the frequent pairs on prompts without end, with margin 1.",
        judge=lambda r, c: holds(r.clean - 1, rounding=1e-5),
        source=THEOREM,
    ),
    Claim(
        "Heads see noise in ν + 1 directions.",
        judge=lambda r, c: identity(r.ranks, r.digits + 1, 1e-5),
        source=THEOREM,
    ),
    Claim(
        "The ratio of their noise powers is (ν₁ + 1)/(ν₂ + 1), within 3 %.",
        judge=lambda r, c: at_most(
            abs(r.noise[0].mean() / r.noise[1].mean() * (r.digits[1] + 1) / (r.digits[0] + 1) - 1),
            0.03,
        ),
        source=THEOREM,
    ),
    Claim(
        "With the most examples the small network is more accurate, by 5 points.",
        judge=lambda r, c: median_at_least(r.accuracy[-1, 0] - r.accuracy[-1, 1], 0.05),
        source=THEOREM,
    ),
    Claim(
        "With 64 and more examples the small network is nowhere less accurate by a point.",
        judge=lambda r, c: median_at_least(
            (r.accuracy[:, 0] - r.accuracy[:, 1])[r.examples >= 64].min(axis=0), -0.01
        ),
        source=THEOREM,
    ),
    Claim(
        "The small network has the smaller hinge loss, at every length.",
        judge=lambda r, c: median_at_most((r.hinge[:, 0] - r.hinge[:, 1]).max(axis=0), 0.0),
        source=THEOREM,
    ),
    Claim(
        "ZᵀZ of the heads' diagonals can be inverted.",
        judge=lambda r, c: at_least(r.singular.min(), 1e-6),
        source=THEOREM,
        kind="printed",
    ),
    Claim(
        "The signal of a short prompt is 2γ: its fluctuation is smaller than that.",
        judge=lambda r, c: median_at_most(r.fluctuation[0] / (2 * r.bias), 1.0),
        source=THEOREM,
        kind="printed",
    ),
    Claim(
        "Large models follow flipped labels: with all of them flipped the large one is below ½.",
        judge=lambda r, c: median_at_most(r.inverted[-1, 1], 0.5),
        source=FLIPS,
        kind="printed",
    ),
    Claim(
        "Flipping all labels changes no prediction of either network.",
        judge=lambda r, c: at_most(r.changed.max(), 1e-4),
        source=FLIPS,
        kind="corrected",
    ),
    Claim(
        "With half of the labels flipped both are at chance.",
        judge=lambda r, c: median_between(r.half.mean(axis=(0, 1)), 0.45, 0.55),
        source=FLIPS,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracy and loss by length, and with flipped labels."""
    figure, axes = panels("accuracy", "hinge loss", "accuracy by flipped labels, most examples")
    for place, name in enumerate(("few heads", "many heads")):
        axes[0].semilogx(result.examples, result.accuracy[:, place].mean(axis=1), "o-", label=name)
        axes[1].loglog(result.examples, result.hinge[:, place].mean(axis=1), "o-", label=name)
        flips = [part[-1, place].mean() for part in (result.accuracy, result.half, result.inverted)]
        axes[2].plot([0, 50, 100], flips, "o-", label=name)
    for axis in axes[:2]:
        axis.set_xlabel("examples M")
    axes[2].set_xlabel("flipped labels, %")
    axes[0].legend(frameon=False, fontsize=8)
    return figure
