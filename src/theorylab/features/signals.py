"""What runs through a network's layers: features, how far training moves them, and signal sizes.

A layer is a product with weights, z = hW, named by its weights in `params`.

    feature movement    ‖h_l(w) − h_l(w₀)‖ / ‖h_l(w₀)‖           at the inputs of layer l
    weight scale        σ_l = |s| rms(W_l) √fan-in               s: numbers beside the weights
    signals             rms(h_l), rms(z_l), rms(∂ℓ/∂z_l)         forward, and backward

With random weights rms(z) = σ rms(h). In a network that is scaled well σ is about 1 whatever the
width (LeCun 1, He √2, PyTorch 1/√3, NTK 1); a layer whose factor 1/√fan-in is missing has σ about
√fan-in. Training moves σ little, as it moves rms(W) little, but z much: so σ is what is judged.

    too large    σ > 5; where data come in, rms(z) > 5 as well (a table of one-hot rows has √fan-in)
    too small    σ < 1/5 of the median of the other layers, and the signal that layers read after
                 it is less than 1/5 of its own; never the readout, which is small in μP

What is added to a residual stream may be small, and what is normalised after, too: the layers that
read it have signals of size 1, and nothing is said.

Source: golikov · mup-step · Eqs 1.20–1.27; golikov · abc-dichotomy · Def. 3.4.5.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.inputs import map_inputs, one_input
from theorylab.training import Loss
from theorylab.typing import Apply, Inputs, Params, Scalar

from .products import products_of

LARGE = 5.0  # times what a layer's scale should be: beyond it a multiplier is missing
_BLOCK = 50  # inputs at a time


def layer_inputs(apply: Apply, params: Params, x: Inputs) -> dict[str, Float[Array, "n ..."]]:
    """What comes into every product with weights, by the name of its weights in `params`.

    Those of the first layers are the data; all others are hidden features.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: Its parameters, any pytree.
        x: The inputs.

    Example:
        >>> network = lambda w, x: jax.nn.relu(x @ w["in"]) @ w["out"]
        >>> params = {"in": jnp.eye(2), "out": jnp.ones((2, 1))}
        >>> found = layer_inputs(network, params, jnp.array([[1.0, -1.0]]))
        >>> found["['in']"].tolist(), found["['out']"].tolist()
        ([[1.0, -1.0]], [[1.0, 0.0]])
    """
    return _in_order(_layer_inputs(apply, params, x), apply, params, x)


@partial(jax.jit, static_argnums=0)
def _layer_inputs(apply: Apply, params: Params, x: Inputs) -> dict[str, Array]:
    def at(one: Any) -> dict[str, Array]:
        products, _ = products_of(apply, params, one)
        return {each.name: _without_batch(each.incoming) for each in products}

    return jax.vmap(at)(x)


def _in_order(found: dict[str, Any], apply: Apply, params: Params, x: Inputs) -> dict[str, Any]:
    """By layers as the network computes them: compiled programs sort names."""
    names = (layer.name for layer in layers_of(apply, params, x))
    return {name: found[name] for name in names if name in found}


def _without_batch(array: Array) -> Array:
    return array[0] if array.shape[:1] == (1,) else array


class FeatureMovement(Answer):
    """How far the inputs of a layer moved, input by input, as squared norms.

    Example: from (3, 4) to (3, 5).
        >>> moved = FeatureMovement(change=jnp.array([1.0]), size=jnp.array([25.0]))
        >>> round(float(moved.relative), 4)
        0.2
    """

    change: Float[Array, " n"]  # ‖h(w) − h(w₀)‖²
    size: Float[Array, " n"]  # ‖h(w₀)‖²

    @property
    def relative(self) -> Float[Array, ""]:
        """‖h(w) − h(w₀)‖ / ‖h(w₀)‖ over all inputs."""
        return jnp.sqrt(self.change.sum() / self.size.sum())


def feature_movement(
    apply: Apply, params: Params, initial_params: Params, x: Inputs
) -> dict[str, FeatureMovement]:
    """How far training moved the features that every layer reads, but for the data.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, after training.
        initial_params: w₀, before.
        x: The inputs.

    Example:
        >>> network = lambda w, x: (x @ w["in"]) @ w["out"]
        >>> before = {"in": jnp.eye(2), "out": jnp.ones((2, 1))}
        >>> after = {"in": 1.5 * jnp.eye(2), "out": jnp.zeros((2, 1))}
        >>> found = feature_movement(network, after, before, jnp.ones((3, 2)))
        >>> {name: float(moved.relative) for name, moved in found.items()}
        {"['out']": 0.5}
    """
    return _in_order(_movement(apply, params, initial_params, x), apply, params, x)


@partial(jax.jit, static_argnums=0)
def _movement(
    apply: Apply, params: Params, initial_params: Params, x: Inputs
) -> dict[str, FeatureMovement]:
    def features(params: Params, one: Any) -> dict[str, Array]:
        products, _ = products_of(apply, params, one)
        return {each.name: each.incoming for each in products if each.is_hidden}

    def at(one: Any) -> dict[str, tuple[Array, Array]]:
        before, after = features(initial_params, one), features(params, one)
        return {name: (_square(after[name] - h), _square(h)) for name, h in before.items()}

    return {name: FeatureMovement(*squares) for name, squares in _mapped(at, x).items()}


def _square(array: Array) -> Float[Array, ""]:
    return jnp.sum(jnp.square(array))


def _mapped(function: Any, x: Inputs) -> Any:
    """A function of one input at all, some at a time."""
    return fast_convolutions(lambda x: map_inputs(function, x, _BLOCK))(x)


class LayerSignals(Answer):
    """Sizes at one layer, z = hW: root mean squares over inputs, positions and entries.

    Example:
        >>> sizes = [jnp.array(size) for size in (1.0, 0.5, 0.5, 0.1)]
        >>> LayerSignals(*sizes).outgoing.item()
        0.5
    """

    weight_scale: Scalar  # σ
    incoming: Scalar  # rms(h)
    outgoing: Scalar  # rms(z), with what multiplies it
    backward: Scalar  # rms of the derivative of an input's loss by z


@dataclass(frozen=True)
class LayerPosition:
    """Where a layer stands in a network.

    Example:
        >>> LayerPosition("a", fan_in=3, is_hidden=False, is_readout=False, readers=("b",)).fan_in
        3
    """

    name: str
    fan_in: int
    is_hidden: bool  # it reads features, not data
    is_readout: bool
    readers: tuple[str, ...]  # layers that read what it gives


def layers_of(apply: Apply, params: Params, x: Inputs) -> list[LayerPosition]:
    """The layers of a network in the order in which it computes them, from its program alone.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: Its parameters, or their shapes.
        x: Inputs, or their shapes.

    Example:
        >>> network = lambda w, x: jax.nn.relu(x @ w["in"]) @ w["out"]
        >>> params = {"in": jnp.eye(2), "out": jnp.ones((2, 1))}
        >>> [layer.readers for layer in layers_of(network, params, jnp.ones((1, 2)))]
        [("['out']",), ()]
    """
    found: list[LayerPosition] = []

    def read(params: Params, one: Any) -> None:
        products, _ = products_of(apply, params, one)
        for i, each in enumerate(products):
            readers = tuple(other.name for other in products if i in other.sources)
            kept = each.name, each.fan_in, each.is_hidden, each.is_readout, readers
            found.append(LayerPosition(*kept))

    jax.eval_shape(read, params, one_input(x))
    return found


def signal_sizes(
    apply: Apply, params: Params, x: Inputs, y: Float[Array, "n k"], loss: Loss
) -> dict[str, LayerSignals]:
    """Sizes of what runs forward and backward through every layer, by the name of its weights.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: Its parameters.
        x: The inputs.
        y: Their targets.
        loss: Its derivative is what runs backward, of one input by itself.

    Example:
        >>> from theorylab.training import squared
        >>> network = lambda w, x: 2 * (x @ w)
        >>> x, y = jnp.ones((4, 9)), jnp.zeros((4, 1))
        >>> (found,) = signal_sizes(network, jnp.ones((9, 1)), x, y, squared("mean")).values()
        >>> [round(float(size), 4) for size in found]
        [6.0, 1.0, 18.0, 72.0]
    """
    return _in_order(_sizes(apply, loss, params, x, y), apply, params, x)


@partial(jax.jit, static_argnums=(0, 1))
def _sizes(
    apply: Apply, loss: Loss, params: Params, x: Inputs, y: Array
) -> dict[str, LayerSignals]:
    def results(one: Any) -> list[Array]:
        return [each.outgoing for each in products_of(apply, params, one)[0]]

    shapes = jax.eval_shape(results, one_input(x))

    def at(given: tuple[Any, Array]) -> dict[str, tuple[Array, ...]]:
        one, target = given

        def tapped(taps: list[Array]) -> tuple[Array, list[Any]]:
            products, outputs = products_of(apply, params, one, taps)
            seen = [
                (
                    each.weight_scale,
                    _mean_square(each.incoming),
                    _mean_square(each.after * each.outgoing),
                )
                for each in products
            ]
            names.extend(each.name for each in products)
            return loss(outputs[None], target[None]), seen

        names: list[str] = []
        taps = [jnp.zeros(like.shape, like.dtype) for like in shapes]
        backward, seen = jax.grad(tapped, has_aux=True)(taps)
        return {
            name: (*sizes, _mean_square(back))
            for name, sizes, back in zip(names, seen, backward, strict=False)
        }

    squares = _mapped(at, (x, y))
    return {
        name: LayerSignals(scale[0], *(jnp.sqrt(value.mean()) for value in sizes))
        for name, (scale, *sizes) in squares.items()
    }


def _mean_square(array: Array) -> Float[Array, ""]:
    return jnp.mean(jnp.square(array))


def misscaled(layers: list[LayerPosition], sizes: Mapping[str, LayerSignals]) -> dict[str, float]:
    """The layers whose weights are of the wrong size, and how many times too large they are.

    The module's docstring has the rule.

    Args:
        layers: Of the network.
        sizes: What runs through them.

    Example: √100 times too large.
        >>> first = LayerPosition("a", 100, True, False, ("b",))
        >>> layers = [first, LayerPosition("b", 100, True, True, ())]
        >>> sizes = {"a": LayerSignals(10.0, 1.0, 10.0, 1.0), "b": LayerSignals(1.0, 8.0, 8.0, 1.0)}
        >>> misscaled(layers, sizes)
        {'a': 10.0}
    """
    scales = {layer.name: float(sizes[layer.name].weight_scale) for layer in layers}
    incoming = {layer.name: float(sizes[layer.name].incoming) for layer in layers}
    found = {}
    for layer in layers:
        name, scale = layer.name, scales[layer.name]
        others = [scales[each.name] for each in layers if each is not layer and not each.is_readout]
        usual = float(np.clip(median(others), 1 / LARGE, LARGE)) if others else 1.0
        large = layer.is_hidden or float(sizes[name].outgoing) > LARGE
        lost = layer.readers and all(
            incoming[reader] * LARGE < incoming[name] for reader in layer.readers
        )
        if scale > LARGE and large:
            found[name] = scale
        elif scale * LARGE < usual and lost and not layer.is_readout:
            found[name] = scale / usual
    return found
