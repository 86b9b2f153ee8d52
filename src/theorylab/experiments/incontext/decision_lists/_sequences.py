"""What the experiments on decision lists share: their settings, audited descents, tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.fields import Plural, Positive, Seeded, Several, within
from theorylab.incontext import DecisionLists, ListTransformer, audit, list_labels
from theorylab.incontext.list_theorems import Audit, joint_scale
from theorylab.incontext.list_transformer import Sets, descend_at_sharpness
from theorylab.typing import Measured, Scalar


@dataclass(frozen=True)
class Lists(Seeded):
    """Random lists, with V = cP and with V near it."""

    num_tokens: Annotated[int, within(3, 40)] = 12  # L
    size: Plural = 3  # n
    length: Plural = 3  # M
    epsilons: Several[Positive] = (0.1, 1.0, 10.0)  # twice the largest noise in V
    num_seeds: Annotated[int, within(1, 1000)] = 6  # random lists

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self.num_tokens, self.size, self.length)
        if max(self.epsilons) > 16 * self.length:
            raise ValueError(f"epsilons must be at most 16 length, got {self.epsilons}.")

    @property
    def delta(self) -> float:
        """δ of Assumption 4.4 for uniform sets, 1/C(L, n)."""
        return 1 / comb(self.num_tokens, self.size)

    def least_scale(self, epsilon: float, loss: float) -> float:
        """What c must exceed, with this loss at the start."""
        return joint_scale(self.size, self.num_tokens, self.length, self.delta, epsilon, loss)

    def scale(self, epsilon: float) -> float:
        """A c for sure: the first loss is at most log L + ε, as noise of ε/2 adds at most ε."""
        return 1.01 * self.least_scale(epsilon, float(np.log(self.num_tokens)) + epsilon)


def check_sizes(num_tokens: int, size: int, length: int) -> None:
    """Refuse sequences and lists that do not fit into so many tokens, and too many sets."""
    if max(size, length) >= num_tokens:
        got = f"got {num_tokens} tokens, size {size}, length {length}"
        raise ValueError(f"size and length must be below the number of tokens, {got}.")
    if comb(num_tokens, size) > 20000:
        raise ValueError(f"at most 20000 sets, got {comb(num_tokens, size)}.")


class Descent(NamedTuple):
    """One descent at η = 1/λ_max, and the steps of the proof at every iterate."""

    audit: Audit
    sharpness: Float[Array, ""]  # λ_max of η
    met: Float[Array, ""]  # the largest eigenvalue on the way
    values: Float[Array, "t l l"]  # V

    @property
    def first(self) -> float:
        """The first iterate that classifies everything, or NaN."""
        perfect = np.asarray(self.audit.perfect)
        return float(perfect.argmax()) if perfect.any() else float("nan")

    def fields(self, least_gradient: float, delta: float) -> dict[str, Any]:
        """What both experiments keep of it, in the units of the proofs."""
        checks = jax.tree.map(lambda part: np.asarray(part, float), self.audit)
        return {
            "sharpness": self.sharpness,
            "met": self.met,
            "loss": checks.loss,
            "gradient": checks.gradient / least_gradient,
            "inside": checks.inside,
            "outside": checks.outside,
            "rare": checks.rare / delta,
            "solved": checks.perfect,
        }


@partial(jax.jit, static_argnames=("sharpness", "trained", "num_steps"))
def descend(
    values: Float[Array, "l l"],
    lists: DecisionLists,
    tokens: Int[Array, "b n"],
    scale: Scalar,
    epsilon: Scalar,
    *,
    sharpness: Callable[[ListTransformer, Sets], Float[Array, ""]],
    trained: tuple[bool, bool],
    num_steps: int,
) -> Descent:
    """Descend from W = 0 and these V, on all sets, with c and ε for the steps of the proof."""
    sets = Sets(tokens, list_labels(lists, tokens))
    start = ListTransformer(jnp.zeros_like(values), values)
    way = descend_at_sharpness(start, sets, sharpness, trained, num_steps)
    checks = jax.lax.map(lambda at: audit(at, sets, lists, scale, epsilon), way.path)
    return Descent(checks, way.sharpness, way.met.max(), way.path.values)


def unsolved(result: Any, values: Float[Measured, "..."]) -> np.ndarray:
    """Values at iterates where something is still wrong; elsewhere nothing is claimed."""
    return values[result.solved == 0]


def table(rows: Sequence[dict[str, Any]], *shape: int) -> dict[str, np.ndarray]:
    """The fields of all rows, each as one array whose leading axes have this shape."""
    stacked = {name: np.stack([np.asarray(row[name], float) for row in rows]) for name in rows[0]}
    return {name: part.reshape(*shape, *part.shape[1:]) for name, part in stacked.items()}
