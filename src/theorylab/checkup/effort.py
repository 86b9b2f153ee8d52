"""How much a measure may cost: inputs and products that fit into its share of the time.

    seconds of one gradient ≈ n · flops/SPEED        flops counted on the program, not timed

So the same network has the same sizes, and so the same numbers, on every machine; a slow one takes
longer. Two cores of a server took 2.2·10¹¹ operations a second in gradients of a dense network of a
million parameters, 1.0·10¹¹ in those of a convolutional one and 0.8·10¹¹ in those of a transformer
(while other programs ran), of which the least is taken.
A Hessian–vector product costs 2.1 to 2.2 gradients (dense, convolutional; 3 to 5 in a transformer),
a Gauss–Newton product 1.5 to 1.9.
"""

import math
from typing import Any, NamedTuple

import jax

from theorylab.models.inputs import some_inputs
from theorylab.training import Loss
from theorylab.typing import Apply, Inputs, Params

from .counting import counted_flops

SPEED = 8e10  # operations a second, of two cores
HESSIAN = 2.2  # gradients that a Hessian–vector product costs
GAUSS_NEWTON = 1.6  # and a Gauss–Newton product
FEWEST = 64  # inputs below which a sample says little about the others
MOST = 1_000  # inputs above which more cost more than they tell


class Effort(NamedTuple):
    """Inputs of a sample, and products with it.

    Example:
        >>> Effort(inputs=200, products=30).inputs
        200
    """

    inputs: int
    products: int


def gradient_flops(apply: Apply, loss: Loss, params: Params, x: Inputs, y: Any) -> float:
    """Operations of one gradient of the loss, for one input, loops as often as they run.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> line = lambda w, x: x @ w
        >>> w, x, y = jnp.ones((50, 1)), jnp.ones((4, 50)), jnp.zeros((4, 1))
        >>> 100 < gradient_flops(line, squared("mean"), w, x, y) < 500
        True
    """
    n = min(2, len(y))
    slope = jax.grad(lambda w, x, y: loss(apply(w, x), y))
    counted = counted_flops(slope, params, some_inputs(x, 0, n), y[:n])
    size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
    return max(counted / n, 2.0 * size)


def effort(flops: float, seconds: float, passes: float, products: int, most: int = MOST) -> Effort:
    """Inputs and products that take at most so many seconds: fewer inputs, then fewer products.

    Args:
        flops: Operations of one gradient for one input.
        seconds: What it may take.
        passes: How many gradients a product costs: 2 for a Hessian–vector product.
        products: How many are wanted.
        most: The greatest number of inputs.

    Example:
        >>> effort(3e6, seconds=4.0, passes=2.0, products=20)
        Effort(inputs=1000, products=20)
        >>> effort(5e8, seconds=4.0, passes=2.0, products=20)
        Effort(inputs=64, products=5)
    """
    affordable = seconds * SPEED / (flops * passes)  # inputs times products
    inputs = min(most, max(min(FEWEST, most), math.floor(affordable / products)))
    return Effort(inputs, max(1, min(products, math.floor(affordable / inputs))))
