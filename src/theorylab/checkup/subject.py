"""The network under examination: what was given, checked, and what several measures share.

    L(w) = loss(apply(w, x), y)      the objective, on the inputs that were given

What costs more than a few passes is computed on a sample of inputs, drawn once, as large as its
share of the time allows; what several measures need is computed once, when the first asks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict, TypeVar, Unpack
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from theorylab.features import UnitActivity, WeightSpectrum, unit_activity, weight_spectra
from theorylab.kernels import TaylorErrors, ntk, taylor_errors
from theorylab.models.inputs import check_inputs, num_inputs, one_input
from theorylab.models.own_network import check_outputs, entered, widened
from theorylab.numerics.counted import CompiledOperator
from theorylab.training import Loss
from theorylab.typing import Apply, Inputs, Params, RandomKey, Reduction, check_key

from . import programs
from .effort import FEWEST, HESSIAN, MOST, SPEED, Effort, effort, gradient_flops
from .given import (
    check_alike,
    check_names,
    check_network,
    check_one_device,
    check_there,
    numbers_of,
)
from .targets import loss_of, targets_of

KERNEL_INPUTS = 200  # of the sample on which tangent kernels are computed, at most
SECONDS = 20.0  # for all measures together, compiling aside, unless told otherwise
MORE_SECONDS = 6.0  # for every million parameters
LONGEST = 75.0
_HELD_BYTES = 2 * 2**30  # of Jacobians, which take twice as much while they are put together
_VECTORS = 200.0  # operations that a product costs for each parameter, whatever the inputs
# The measures that are read off one set of Hessian products: any of them forces all.
_OF_SPECTRUM = (
    *("sharpness", "stability", "hessian_spectrum", "lowest_eigenvalue"),
    *("hessian_trace", "effective_rank", "hessian_density"),
)

T = TypeVar("T")
# What does not depend on the parameters, but on the network, its inputs and where it began.
_OF_THE_NETWORK = ("flops", "num_params", "_order", "kernel_inputs")
_OF_THE_BEGINNING = ("initial_kernel",)


@dataclass(frozen=True, eq=False)
class Subject:
    """A network with its data and what is known of its training; made by `subject_of`.

    Example:
        >>> line = lambda w, x: x @ w
        >>> x, y = jnp.ones((3, 2)), jnp.zeros((3, 1))
        >>> subject_of(line, jnp.ones((2, 1)), x, y, jax.random.key(0), loss="mse").num_params
        2
    """

    apply: Apply
    params: Params
    x: Inputs
    y: Float[Array, "n k"]
    loss: Loss
    key: RandomKey
    learning_rate: float | None = None
    optimizer: str | None = None  # "sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", …
    optimizer_state: Any = None  # of optax, with the second moments of Adam
    momentum: float | None = None  # of "momentum" and "nesterov"; β₁ of Adam
    batch_size: int | None = None
    initial_params: Params | None = None  # where training began
    checkpoint: Params | None = None  # parameters of another run, or of another time
    by_width: Callable[[int], tuple[Apply, Params]] | None = None  # the same network, wider
    x_test: Inputs | None = None
    y_test: Float[Array, "m k"] | None = None
    budget: float | None = None  # seconds for all measures together
    force: frozenset[str] = frozenset()  # measures that may take as long as they like

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

    @property
    def seconds(self) -> float:
        """The time for all measures together."""
        usual = min(SECONDS + MORE_SECONDS * self.num_params / 1e6, LONGEST)
        return usual if self.budget is None else self.budget

    @cached_property
    def flops(self) -> float:
        """Operations of a gradient, for one input."""
        return gradient_flops(self.apply, self.loss, self.params, self.x, self.y)

    def effort(
        self, name: str, share: float, passes: float, products: int, most: int = MOST
    ) -> Effort:
        """How many inputs and products a measure may take, as its share of the time allows.

        Args:
            name: The measure's; if it is forced, it takes all that it wants.
            share: Of the whole time, in (0, 1).
            passes: How many gradients a product costs.
            products: How many it wants.
            most: The greatest number of inputs it wants.
        """
        most = min(most, self.num_inputs)
        if name in self.force:
            return Effort(most, products)
        return effort(self.flops, share * self.seconds, passes, products, most)

    def at(self, params: Params, **known: Any) -> "Subject":
        """The same network with other parameters; its programs are compiled already.

        Args:
            params: The other parameters.
            **known: Fields that have changed with them, such as `learning_rate=`.
        """
        other = replace(self, params=params, **known)
        kept = _OF_THE_NETWORK if "initial_params" in known else _OF_THE_NETWORK + _OF_THE_BEGINNING
        vars(other).update({name: vars(self)[name] for name in kept if name in vars(self)})
        return other

    def key_for(self, name: str) -> RandomKey:
        """A key of a measure's own, which does not depend on the others."""
        return jax.random.fold_in(self.key, crc32(name.encode()))

    def sample(self, size: int) -> tuple[Inputs, Float[Array, "m k"]]:
        """At most this many inputs with their targets; a smaller sample begins a larger one."""
        if size >= self.num_inputs:
            return self.x, self.y
        chosen = np.asarray(self._order[:size])
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], self.x), self.y[chosen]

    @cached_property
    def _order(self) -> Array:
        return jax.random.permutation(self.key_for("sample"), self.num_inputs)

    @cached_property
    def outputs(self) -> Float[Array, "n k"]:
        """f(x) at all inputs."""
        return programs.all_outputs(self.apply, self.params, self.x)

    @cached_property
    def seen(self) -> tuple[Float[Array, "m k"], Float[Array, "m k"]]:
        """f(x) with their targets, at all inputs or as many as a share of the time allows."""
        size = self.effort("fit", 0.15, 1 / 3, 1, most=self.num_inputs).inputs
        if size >= self.num_inputs:
            return self.outputs, self.y
        x, y = self.sample(size)
        return programs.all_outputs(self.apply, self.params, x), y

    @cached_property
    def held_out(self) -> tuple[Float[Array, "m k"], Float[Array, "m k"]]:
        """The same at held-out inputs, by the program of the others."""
        assert self.y_test is not None
        x, y = self.x_test, self.y_test
        size = effort(self.flops, 0.15 * self.seconds, 1 / 3, 1, len(y)).inputs
        if size < len(y) and "test_gap" not in self.force:
            chosen = np.asarray(jax.random.permutation(self.key_for("test_gap"), len(y))[:size])
            x, y = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], x), y[chosen]
        return programs.all_outputs(self.apply, self.params, x, self.num_inputs), y

    def shared(self, make: "Callable[[Subject], T]") -> T:
        """What several measures need, made when the first of them asks.

        Args:
            make: A function of a module, of the subject alone.
        """
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    @cached_property
    def _made(self) -> dict[Callable, Any]:
        return {}

    @cached_property
    def curved(self) -> Effort:
        """The inputs of the sample on which Hessians are taken, and products for one spectrum."""
        name = next((row for row in _OF_SPECTRUM if row in self.force), "curvature")
        return self.effort(name, share=0.3, passes=HESSIAN, products=100)

    def affordable(self, name: str, share: float, passes: float, inputs: int, most: int) -> int:
        """How many products with so many inputs fit into a share of the time: 1 at least.

        Args:
            name: The measure's; if it is forced, it takes all that it wants.
            share: Of the whole time, in (0, 1).
            passes: How many gradients a product costs.
            inputs: How many inputs a product takes.
            most: How many products it wants.
        """
        if name in self.force:
            return most
        each = self.flops * passes * inputs + _VECTORS * self.num_params
        fit = share * self.seconds * SPEED / each
        return max(1, min(most, int(fit)))

    def hessian_on(self, size: int) -> CompiledOperator:
        """The operator v ─► ∇²L(w) v on a sample of so many inputs, for flat v."""
        x, y = self.sample(size)
        return CompiledOperator(
            lambda v: programs.hessian_product(self.apply, self.loss, self.params, x, y, v)
        )

    @cached_property
    def hessian(self) -> CompiledOperator:
        """The operator v ─► ∇²L(w) v on the sample of `curved`, for flat v."""
        return self.hessian_on(self.curved.inputs)

    @cached_property
    def flat(self) -> Float[Array, " p"]:
        """The parameters as one vector."""
        return ravel_pytree(self.params)[0]

    @cached_property
    def kernel_inputs(self) -> int:
        """Inputs of the sample on which tangent kernels are computed."""
        wanted = min(KERNEL_INPUTS, self.num_inputs)
        # Twice the gradients: Jacobians of single inputs are small products, and then compared.
        inputs = self.effort(
            "kernel", 0.1, passes=2.0 * self.num_outputs, products=1, most=wanted
        ).inputs
        if inputs > FEWEST or "kernel" in self.force:
            return inputs
        size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(self.params))
        return min(inputs, max(FEWEST // 2, _HELD_BYTES // size))

    @cached_property
    def kernel(self) -> Float[Array, "m m"]:
        """The tangent kernel, mean over outputs, on the sample of `kernel_inputs`."""
        return self._kernel_at(self.params)

    def _kernel_at(self, params: Params) -> Float[Array, "m m"]:
        """Jacobians of one output at all these inputs are made once, where memory has room."""
        size = self.kernel_inputs
        held = size * sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(params))
        block_size = size if held <= _HELD_BYTES else None
        return ntk(self.apply, params, self.sample(size)[0], block_size=block_size)

    @cached_property
    def activity(self) -> tuple[int, dict[str, UnitActivity]]:
        """What hidden units do at the inputs of a sample, by activation; and how many inputs."""
        size = self.effort("dead_units", 0.06, passes=0.6, products=1, most=4 * MOST).inputs
        found = unit_activity(self.apply, self.params, self.sample(size)[0])
        return size, found

    @cached_property
    def spectra(self) -> dict[str, WeightSpectrum]:
        """The singular values of every matrix among the parameters, beside random ones."""
        return weight_spectra(self.params)

    @cached_property
    def initial_kernel(self) -> Float[Array, "m m"] | None:
        """The same kernel where training began, if that was told."""
        if self.initial_params is None:
            return None
        return self._kernel_at(self.initial_params)

    @cached_property
    def taylor(self) -> TaylorErrors:
        """Errors of Taylor models around `initial_params`, on the way to the parameters."""
        if self.initial_params is None:
            raise ValueError("initial_params must be given for Taylor models around them.")
        x, _ = self.sample(self.effort("taylor", share=0.1, passes=8.0, products=1).inputs)
        return taylor_errors(self.apply, self.params, self.initial_params, x)


class Known(TypedDict, total=False):
    """What may be told of a network besides its data: keyword arguments of `examine`.

    Example:
        >>> Known(loss="mse", learning_rate=0.1)["learning_rate"]
        0.1
    """

    loss: str | Loss  # "cross_entropy" unless told otherwise, "mse" or "logistic", or a `Loss`
    outputs: Reduction | None  # what reduces the outputs to (n, k), if they are not
    learning_rate: float | None  # that it is trained with
    optimizer: str | None  # "sgd", "momentum", "nesterov", "adam", "adamw" or "rmsprop"
    optimizer_state: Any  # of optax: has the second moments of Adam
    momentum: float | None  # of "momentum" and "nesterov", β₁ of Adam; 0.9 unless told otherwise
    batch_size: int | None  # of the batches that it is trained on
    initial_params: Params | None  # where training began
    checkpoint: Params | None  # parameters of another run, or time, to be connected with these
    by_width: Callable[[int], tuple[Apply, Params]] | None  # the network at other widths, untrained
    x_test: Inputs | None  # held-out inputs
    y_test: Any  # their targets
    budget: float | None  # seconds for all; by default 20, and 6 for every million parameters, ≤ 75


def subject_of(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Any,
    key: RandomKey,
    *,
    force: frozenset[str] = frozenset(),
    **known: Unpack[Known],
) -> Subject:
    """Check what was given, and put it together.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs.
        params: Its parameters, a tree of floating arrays.
        x: Inputs.
        y: Targets: class numbers (n,), values or probabilities (n, k).
        key: Draws samples and probes.
        force: Measures that may take as long as they like.
        **known: What else is known: see `Known`.

    Example:
        >>> line = lambda w, x: x @ w
        >>> x, y = jnp.ones((3, 2)), jnp.zeros((3, 1))
        >>> subject = subject_of(line, jnp.ones((2, 1)), x, y, jax.random.key(0), loss="mse")
        >>> subject.outputs.tolist()
        [[2.0], [2.0], [2.0]]
    """
    check_key(key)
    check_names(known, Known.__annotations__)
    given: dict[str, Any] = {**known, **numbers_of(known)}
    reduction = given.pop("outputs", None)
    check_network(apply, params, x, reduction)
    own = entered(apply, params, x, None, reduction)
    n, k = num_inputs(own.x1), check_outputs(own.apply, own.params, own.x1)
    chosen = loss_of(given.pop("loss", "cross_entropy"))
    targets = targets_of(y, chosen, n, k)
    for name in ("initial_params", "checkpoint"):
        check_alike(name, given.get(name), own.params)
    if not (given.get("by_width") is None or callable(given["by_width"])):
        raise TypeError(
            "by_width must be a function, width ─► (apply, params), got a"
            f" {type(given['by_width']).__name__}."
        )
    check_one_device(params=params, x_test=given.get("x_test"))
    given |= held_out(own.x1, given.get("x_test"), given.get("y_test"), chosen, k)
    return Subject(own.apply, own.params, own.x1, targets, chosen, key, force=force, **given)


def held_out(
    x: Inputs, x_test: Inputs | None, y_test: Any, loss: Loss, num_outputs: int
) -> dict[str, Any]:
    """Held-out inputs and targets, checked like the others: none, or both.

    Args:
        x: The inputs that are trained on.
        x_test: Held-out inputs of the same shape.
        y_test: Their targets, as `targets_of` takes them.
        loss: The loss.
        num_outputs: The number k of outputs.

    Example:
        >>> from theorylab.training import squared
        >>> held_out(jnp.ones((3, 2)), jnp.ones((4, 2)), None, squared("mean"), 1)
        Traceback (most recent call last):
        ...
        ValueError: x_test and y_test must be given together, got x_test alone.
    """
    if x_test is None and y_test is None:
        return {}
    if x_test is None or y_test is None:
        alone = "y_test" if x_test is None else "x_test"
        raise ValueError(f"x_test and y_test must be given together, got {alone} alone.")
    check_there("x_test", x_test)
    check_inputs(x_test, "x_test")
    x_test = widened(x_test)
    shapes = [jax.tree.map(lambda leaf: leaf.shape, one_input(each)) for each in (x, x_test)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"x_test must hold inputs of the shape of x, {shapes[0]}, got {shapes[1]}."
        )
    targets = targets_of(y_test, loss, num_inputs(x_test), num_outputs, "y_test")
    return {"x_test": x_test, "y_test": targets}
