"""How a weight enters a network: a matrix product or a convolution, and the two factors it has.

Where a network computes h_s = g_s W, at one or several positions s, output a has the gradient

    ∂f_a/∂W = Σ_s g_s ⊗ b_as,   b_as = ∂f_a/∂h_s.

A convolution is the same with g_s the window at s, laid out flat. If W has axes that the product
runs along (a weight of its own for every position or group), there is one such sum for each
group. What is read here: dot_general and conv_general_dilated, with all their axes, strides,
paddings, dilations and groups.

Source: golikov · ntk-emp · Eq. 2.56.
"""

import itertools
import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jaxtyping import Array, Float


class WeightFactors(NamedTuple):
    """∂f_a/∂W = Σ_s g_s ⊗ b_as for every group: what comes in (g), and what comes back (b).

    Example: g = (1, 2) and b = 3 give the gradient (3, 6).
        >>> factors = WeightFactors(jnp.array([[[1.0, 2.0]]]), jnp.array([[[[3.0]]]]))
        >>> jnp.einsum("gsc,kgsm->kgcm", factors.forward, factors.backward).ravel().tolist()
        [3.0, 6.0]
    """

    forward: Float[Array, "*n groups s c"]
    backward: Float[Array, "*n k groups s m"]


class FactorSizes(NamedTuple):
    """Sizes of a weight's factors; positions are those of all its uses.

    Example: a dense layer with 3 inputs and 2 outputs.
        >>> FactorSizes(groups=1, positions=1, fan_in=3, fan_out=2).fan_in
        3
    """

    groups: int
    positions: int
    fan_in: int
    fan_out: int


class WeightUse(NamedTuple):
    """A product of a weight with something that depends on no parameter directly.

    Example: the gradient of a product xW with x = (1, 2), if 3 comes back.
        >>> (equation,) = jax.make_jaxpr(jax.lax.dot)(jnp.ones((1, 2)), jnp.ones((2, 1))).eqns
        >>> use = product_use(equation, weight=1, leaf=0, layout=())
        >>> use.multiplied_out(jnp.array([[1.0, 2.0]]), jnp.array([[[3.0]]])).ravel().tolist()
        [3.0, 6.0]
    """

    leaf: int  # which parameter it is
    layout: Hashable  # which entries stand where in the factors: uses of one layout add up
    sizes: FactorSizes
    other: int  # which operand is g
    shape: tuple[int, ...]  # of the product
    forward: Callable[[Array], list[Array]]  # g ─► (groups, s, c / window) at every offset
    backward: Callable[[Array], Array]  # ∂f_a/∂h ─► (groups, s, m)

    def factors(self, given: Array, back: Float[Array, "k ..."]) -> WeightFactors:
        """Arrange g and b: groups, positions, channels."""
        return WeightFactors(
            jnp.concatenate(self.forward(given), -1), jax.vmap(self.backward)(back)
        )

    def multiplied_out(self, given: Array, back: Float[Array, "k ..."]) -> Float[Array, "k ..."]:
        """∂f_a/∂W = Σ_s g_s ⊗ b_as, as one array (k, groups, c, m)."""
        b = jax.vmap(self.backward)(back)
        # Offset by offset: windows that overlap are never copied beside each other. With an axis k
        # of g, too, the products come out in their order.
        products = [
            jnp.einsum("kgsc,kgsm->kgcm", jnp.broadcast_to(g[None], (len(b), *g.shape)), b)
            for g in self.forward(given)
        ]
        return jnp.concatenate(products, axis=2)


def shape_of(atom: Any) -> tuple[int, ...]:
    """The shape of a value in a program.

    Example:
        >>> shape_of(jax.make_jaxpr(jnp.sin)(jnp.ones((2, 3))).jaxpr.invars[0])
        (2, 3)
    """
    return getattr(atom.aval, "shape", ())


def product_use(equation: JaxprEqn, weight: int, leaf: int, layout: tuple) -> WeightUse:
    """Read a dot_general whose operand number `weight` is the parameter number `leaf`.

    Example: five positions go through one weight.
        >>> (equation,) = jax.make_jaxpr(jax.lax.dot)(jnp.ones((5, 2)), jnp.ones((2, 3))).eqns
        >>> product_use(equation, weight=1, leaf=0, layout=()).sizes
        FactorSizes(groups=1, positions=5, fan_in=2, fan_out=3)
    """
    other = 1 - weight
    summed, batched = equation.params["dimension_numbers"]
    shapes = [shape_of(atom) for atom in equation.invars]
    free = [
        [axis for axis in range(len(shapes[i])) if axis not in (*summed[i], *batched[i])]
        for i in range(2)
    ]
    sizes = FactorSizes(
        groups=_size(shapes[weight], batched[weight]),
        positions=_size(shapes[other], free[other]),
        fan_in=_size(shapes[weight], summed[weight]),
        fan_out=_size(shapes[weight], free[weight]),
    )
    groups, positions, fan_in, fan_out = sizes

    def forward(given: Array) -> list[Array]:
        axes = (*batched[other], *free[other], *summed[other])
        return [jnp.transpose(given, axes).reshape(groups, positions, fan_in)]

    def backward(back: Array) -> Array:
        if weight == 1:
            return back.reshape(groups, positions, fan_out)
        return back.reshape(groups, fan_out, positions).swapaxes(1, 2)

    layout = (*layout, "product", tuple(summed[weight]), tuple(batched[weight]))
    return WeightUse(leaf, layout, sizes, other, shape_of(equation.outvars[0]), forward, backward)


def convolution_use(equation: JaxprEqn, leaf: int, layout: tuple) -> WeightUse:
    """Read a conv_general_dilated whose kernel is the parameter number `leaf`.

    Example: a window of 3 × 3 has nine places in an image of 5 × 5.
        >>> convolve = lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID")
        >>> x, w = jnp.ones((1, 2, 5, 5)), jnp.ones((4, 2, 3, 3))
        >>> (equation,) = jax.make_jaxpr(convolve)(x, w).eqns
        >>> convolution_use(equation, leaf=0, layout=()).sizes
        FactorSizes(groups=1, positions=9, fan_in=18, fan_out=4)
    """
    of_input, of_kernel, of_result = equation.params["dimension_numbers"]
    groups = equation.params["feature_group_count"]
    kernel, shape = shape_of(equation.invars[1]), shape_of(equation.outvars[0])
    window = [kernel[axis] for axis in of_kernel[2:]]
    counts = [shape[axis] for axis in of_result[2:]]
    sizes = FactorSizes(
        groups=groups,
        positions=math.prod(shape) // shape[of_result[1]],
        fan_in=kernel[of_kernel[1]] * math.prod(window),
        fan_out=kernel[of_kernel[0]] // groups,
    )

    def forward(given: Array) -> list[Array]:
        last = jnp.transpose(given, (of_input[0], *of_input[2:], of_input[1]))
        channels = kernel[of_kernel[1]]
        return [
            jnp.moveaxis(part.reshape(sizes.positions, groups, channels), 1, 0)
            for part in _windows(last, window, counts, equation.params)
        ]

    def backward(back: Array) -> Array:
        last = jnp.transpose(back, (of_result[0], *of_result[2:], of_result[1]))
        return jnp.moveaxis(last.reshape(sizes.positions, groups, sizes.fan_out), 1, 0)

    layout = (*layout, "convolution", of_kernel, groups)
    return WeightUse(leaf, layout, sizes, 0, shape, forward, backward)


def _windows(
    x: Array, window: list[int], counts: list[int], settings: dict[str, Any]
) -> list[Array]:
    """What stands at each offset of all windows of x (n, *positions, channels)."""
    pads = zip(settings["padding"], settings["lhs_dilation"], strict=True)
    edges = [(before, after, dilation - 1) for (before, after), dilation in pads]
    padded = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), *edges, (0, 0, 0)])
    strides, dilations = settings["window_strides"], settings["rhs_dilation"]

    def at(offset: tuple[int, ...]) -> Array:
        begins = [o * dilation for o, dilation in zip(offset, dilations, strict=True)]
        ends = [
            begin + (count - 1) * stride + 1
            for begin, count, stride in zip(begins, counts, strides, strict=True)
        ]
        begins, ends = (0, *begins, 0), (x.shape[0], *ends, x.shape[-1])
        return jax.lax.slice(padded, begins, ends, (1, *strides, 1))

    return [at(offset) for offset in itertools.product(*map(range, window))]


def convolution(equation: JaxprEqn) -> Callable[[Array, Array], Array]:
    """The function (x, W) that a conv_general_dilated computes, with a derivative that is fast.

    Inside loops, XLA on CPUs is fast for convolutions only if W stands as (*window, in, out). The
    derivative by x goes back through a convolution with in and out exchanged; it is fast if the
    one that it transposes is not. So the derivative is written with W exchanged.

    Example: a window of ones over an image of ones sums 2 channels of 3 × 3 pixels.
        >>> convolve = lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID")
        >>> x, w = jnp.ones((1, 2, 5, 5)), jnp.ones((4, 2, 3, 3))
        >>> (equation,) = jax.make_jaxpr(convolve)(x, w).eqns
        >>> float(convolution(equation)(x, w)[0, 0, 0, 0])
        18.0
    """
    settings = equation.params
    of_input, of_kernel, of_result = settings["dimension_numbers"]
    out, into = of_kernel[:2]
    exchanged = jax.lax.ConvDimensionNumbers(of_input, (into, out, *of_kernel[2:]), of_result)
    convolve = partial(equation.primitive.bind, **settings)

    @jax.custom_jvp
    def function(x: Array, kernel: Array) -> Array:
        return convolve(x, kernel)

    @function.defjvp
    def derivative(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple:
        (x, kernel), (change, kernel_change) = primals, tangents
        transposed = jnp.swapaxes(kernel, out, into)
        along_x = equation.primitive.bind(
            change, transposed, **{**settings, "dimension_numbers": exchanged}
        )
        return convolve(x, kernel), along_x + convolve(x, kernel_change)

    return function


def _size(shape: tuple[int, ...], axes: Any) -> int:
    return math.prod(shape[axis] for axis in axes)
