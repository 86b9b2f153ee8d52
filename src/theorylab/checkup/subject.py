"""The network under examination: what was given, checked, and what several measures share.

    L(w) = loss(apply(w, x), y)      the objective, on the inputs that were given

What costs more than a few passes is computed on a sample of inputs, drawn once; what several
measures need is computed once, when the first of them asks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.kernels import ntk
from theorylab.models.inputs import num_inputs
from theorylab.models.own_network import check_outputs, check_params, entered
from theorylab.training import Loss
from theorylab.typing import Apply, Inputs, Params, RandomKey, Reduction, check_key

from .targets import loss_of, targets_of

KERNEL_INPUTS = 200  # of the sample on which tangent kernels are computed
SAMPLE = 1_000  # inputs of the sample for what passes over all inputs many times


@dataclass(frozen=True, eq=False)
class Subject:
    """A network with its data and what is known of its training; made by `subject_of`."""

    apply: Apply
    params: Params
    x: Inputs
    y: Float[Array, "n k"]
    loss: Loss
    key: RandomKey
    learning_rate: float | None = None
    optimizer: str | None = None  # "sgd", "momentum", "adam", ...
    optimizer_state: Any = None  # of optax, with the second moments of Adam
    momentum: float = 0.9  # of "momentum"; β₁ of Adam
    batch_size: int | None = None
    initial_params: Params | None = None
    checkpoint: Params | None = None  # parameters of another run, or of another time
    by_width: Callable[[int], tuple[Apply, Params]] | None = None
    x_test: Inputs | None = None
    y_test: Array | None = None

    @property
    def num_inputs(self) -> int:
        """The number n."""
        return num_inputs(self.x)

    @property
    def num_outputs(self) -> int:
        """The number k."""
        return self.y.shape[1]

    @cached_property
    def num_params(self) -> int:
        """The number p."""
        return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(self.params))

    @cached_property
    def outputs(self) -> Float[Array, "n k"]:
        """f(x) at all inputs."""
        return jax.jit(self.apply)(self.params, self.x)

    def key_for(self, name: str) -> RandomKey:
        """A key of a measure's own, which does not depend on the others."""
        return jax.random.fold_in(self.key, crc32(name.encode()))

    def sample(self, size: int) -> tuple[Inputs, Float[Array, "m k"]]:
        """At most this many inputs with their targets, always the same."""
        if size >= self.num_inputs:
            return self.x, self.y
        chosen = jax.random.permutation(self.key_for("sample"), self.num_inputs)[:size]
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], self.x), self.y[chosen]

    @cached_property
    def objective(self) -> Callable[[Params], Float[Array, ""]]:
        """L(w) on a sample of at most 1,000 inputs."""
        x, y = self.sample(SAMPLE)
        return lambda params: self.loss(self.apply(params, x), y)

    @cached_property
    def kernel(self) -> Float[Array, "m m"]:
        """The tangent kernel, mean over outputs, on a sample of at most 200 inputs."""
        x, _ = self.sample(KERNEL_INPUTS)
        return ntk(self.apply, self.params, x)


def subject_of(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Any,
    key: RandomKey,
    *,
    loss: str | Loss = "cross_entropy",
    outputs: Reduction | None = None,
    **known: Any,
) -> Subject:
    """Check what was given, and put it together.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs.
        params: Its parameters, a tree of floating arrays.
        x: Inputs.
        y: Targets: class numbers (n,), values or probabilities (n, k).
        key: Draws samples and probes.
        loss: "cross_entropy", "mse" or "logistic", or a `Loss`.
        outputs: What reduces the outputs to (n, k), if they are not.
        **known: Other fields of `Subject`.

    Example:
        >>> line = lambda w, x: x @ w
        >>> x, y = jnp.ones((3, 2)), jnp.zeros((3, 1))
        >>> subject = subject_of(line, jnp.ones((2, 1)), x, y, jax.random.key(0), loss="mse")
        >>> float(subject.objective(subject.params))
        4.0
    """
    check_key(key)
    own = entered(apply, params, x, None, outputs)
    n, k = num_inputs(own.x1), check_outputs(own.apply, own.params, own.x1)
    chosen = loss_of(loss)
    targets = targets_of(y, chosen, n, k)
    for name in ("initial_params", "checkpoint"):
        check_alike(name, known.get(name), own.params)
    rate = known.get("learning_rate")
    if rate is not None and not rate > 0:
        raise ValueError(f"learning_rate must be positive, got {rate}.")
    return Subject(own.apply, own.params, own.x1, targets, chosen, key, **known)


def check_alike(name: str, other: Params | None, params: Params) -> None:
    """Raise unless other parameters, if there are any, have the tree and shapes of these.

    Example:
        >>> check_alike("checkpoint", jnp.ones(3), jnp.ones(2))
        Traceback (most recent call last):
        ...
        ValueError: checkpoint must have the tree and shapes of params, ...
    """
    if other is None:
        return
    check_params(other)
    shapes = lambda tree: jax.tree.map(jnp.shape, tree)  # noqa: E731
    if jax.tree.structure(other) != jax.tree.structure(params) or shapes(other) != shapes(params):
        raise ValueError(
            f"{name} must have the tree and shapes of params, got {shapes(other)} beside"
            f" {shapes(params)}."
        )
