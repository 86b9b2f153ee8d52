"""Convolutions in their fast forms against `jax.lax`'s own, and where they stand in a program."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from theorylab.models.convolutions import Options, axes_of, convolve

KEY = jax.random.key(0)
# (inputs, kernel, strides, padding, dilation of inputs and of kernel, groups of features, of batch)
CASES = {
    "1d": ((3, 7, 2), (3, 2, 4), 1, [(1, 1)], 1, 1, 1, 1),
    "1d strided, dilated": ((3, 9, 2), (3, 2, 4), 2, [(2, 0)], 1, 2, 1, 1),
    "1d depthwise": ((2, 8, 3), (4, 1, 6), 1, [(3, 0)], 1, 1, 3, 1),
    "2d": ((2, 5, 6, 3), (3, 2, 3, 4), 1, [(1, 1), (0, 1)], 1, 1, 1, 1),
    "2d strided": ((2, 7, 6, 3), (3, 3, 3, 2), 2, [(1, 1), (0, 1)], 1, 1, 1, 1),
    "2d negative padding": ((2, 7, 6, 3), (2, 2, 3, 2), 1, [(-1, 2), (1, -2)], 1, 1, 1, 1),
    "2d transposed": ((2, 4, 3, 3), (3, 3, 3, 2), 1, [(1, 2), (2, 2)], 2, 1, 1, 1),
    "2d transposed, window over all": ((2, 2, 2, 3), (3, 3, 3, 2), 1, [(0, 0), (1, 0)], 2, 1, 1, 1),
    "2d grouped, everything": ((2, 9, 8, 4), (3, 2, 2, 6), 2, [(1, -1), (2, 0)], 2, 2, 2, 1),
    "2d depthwise": ((2, 5, 5, 4), (3, 3, 1, 4), 1, [(1, 1), (1, 1)], 1, 1, 4, 1),
    "2d batch groups": ((4, 5, 4, 3), (3, 2, 3, 6), 1, [(1, 1), (0, 0)], 1, 1, 1, 2),
    "2d batch groups, large window": ((4, 5, 4, 3), (5, 4, 3, 2), 1, [(1, 0), (0, 1)], 1, 1, 1, 2),
    "3d": ((2, 4, 3, 5, 2), (2, 3, 2, 2, 3), 1, [(0, 0), (1, 1), (0, 1)], 1, 1, 1, 1),
    "3d strided": ((2, 4, 4, 5, 2), (2, 2, 3, 2, 3), 2, [(0, 1), (0, 0), (1, 0)], 1, 1, 1, 1),
    "3d transposed": ((1, 2, 2, 3, 2), (2, 2, 2, 2, 2), 1, [(1, 0), (0, 0), (1, 1)], 2, 1, 1, 1),
    "no offsets": ((2, 6), (6, 3), 1, [], 1, 1, 1, 1),
    "no positions left": ((2, 2, 3), (4, 3, 5), 1, [(0, 0)], 1, 1, 1, 1),
}


def options_of(case, axes=None, **others):
    """The options of a case, in any order of axes."""
    *_, strides, padding, before, within, features, batches = case
    sizes = len(padding)
    return Options(
        *((strides,) * sizes, tuple(padding), (before,) * sizes, (within,) * sizes),
        *(axes or axes_of(sizes), features, batches),
        **({"precision": None, "preferred_element_type": None} | others),
    )


def by_lax(x, kernel, options):
    """The primitive, with the same options."""
    return lax.conv_general_dilated(x, kernel, **options._asdict())


def drawn(case, dtype=jnp.float64):
    keys = jax.random.split(KEY)
    return [jax.random.normal(key, shape, dtype) for key, shape in zip(keys, case[:2], strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_every_form_is_the_convolution(name):
    """Oracle: `jax.lax`'s primitive; its value, and both gradients with their own derivatives."""
    case = CASES[name]
    options, arrays = options_of(case), drawn(case)

    def of(convolution):
        def bent(x, kernel):
            return jnp.sum(jnp.sin(convolution(x, kernel, options)))

        def curved(x, kernel):
            slopes = jax.grad(bent, (0, 1))
            return slopes(x, kernel), jax.jvp(slopes, (x, kernel), (kernel.sum() * x, kernel))[1]

        return convolution(*arrays, options), curved(*arrays)

    plain, fast = jax.jit(lambda: (of(by_lax), of(convolve)))()
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(fast), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
def test_axes_may_stand_in_any_order(groups):
    """Oracle: the primitive, over permutations of inputs, kernel and result at once."""
    case = ((2, 5, 4, 2 * groups), (3, 2, 2, 4), 1, [(1, 0), (0, 1)], 1, 1, groups, 1)
    x, kernel = drawn(case)
    for shift, order in enumerate(itertools.islice(itertools.permutations(range(4)), 1, 24, 5)):
        specs = (order, tuple(np.roll(order, shift)), order[::-1])
        options = options_of(case, lax.ConvDimensionNumbers(*specs))
        # A spec says where batch, channels, positions stand; the arrays are (n, …, c), (…, c, out).
        given = jnp.transpose(x, np.argsort(np.array(specs[0])[[0, 2, 3, 1]]).tolist())
        weights = jnp.transpose(kernel, np.argsort(np.array(specs[1])[[2, 3, 1, 0]]).tolist())
        expected = by_lax(given, weights, options)
        np.testing.assert_allclose(convolve(given, weights, options), expected, rtol=1e-11)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("given", "asked"), [("bfloat16", None), ("float16", "float32")])
def test_types_of_results_are_kept_and_sums_are_exact_to_them(given, asked, groups):
    """Oracle: the convolution in double precision; one rounding of a half."""
    case = ((2, 6, 6, 16), (3, 3, 16 // groups, 4), 1, [(1, 1), (1, 1)], 1, 1, groups, 1)
    x, kernel = drawn(case, jnp.dtype(given))
    asked_type = None if asked is None else np.dtype(asked)
    y = convolve(x, kernel, options_of(case, preferred_element_type=asked_type))
    exact = by_lax(x.astype(float), kernel.astype(float), options_of(case))
    assert y.dtype == jnp.dtype(asked or given)
    error = np.abs(np.asarray(y, float) - exact).max() / np.abs(exact).max()
    assert error < (1 if asked is None else 8) * jnp.finfo(y.dtype).eps
