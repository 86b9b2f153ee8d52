import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import nngp, ntk_of_axes

X1, X2 = (jax.random.normal(jax.random.key(i), (n, 3, 2)) for i, n in ((0, 2), (1, 3)))
PARAMS = jax.random.normal(jax.random.key(2), (2, 4))


def network(w, x):
    """Outputs with three positions and four channels."""
    return jnp.tanh(x @ w)


def by_hand(first, second, mean_axes, diagonal_axes):
    """All pairs of Jacobians or outputs, (n, 3, 4, ...), multiplied; then diagonals and means."""
    kernel = np.einsum("nabp,mcdp->nmacbd", first, second)
    channels = slice(4, 6)
    for axis, place in ((2, channels), (1, slice(2, 4))):
        if axis in mean_axes or axis - 3 in mean_axes:
            kernel = np.trace(kernel, axis1=place.start, axis2=place.start + 1) / (
                3 if axis == 1 else 4
            )
        elif axis in diagonal_axes or axis - 3 in diagonal_axes:
            kernel = np.diagonal(kernel, axis1=place.start, axis2=place.start + 1)
            kernel = np.moveaxis(kernel, -1, place.start)
    return kernel


@pytest.mark.parametrize(
    ("mean_axes", "diagonal_axes"),
    [((-1,), ()), ((), (-1,)), ((1, 2), ()), ((1,), (2,)), ((), (1, 2)), ((), ())],
)
def test_axes_are_averaged_paired_or_compared_one_by_one(mean_axes, diagonal_axes):
    """Oracle: dense Jacobians, and outputs, multiplied entry by entry in NumPy."""
    first, second = (
        np.asarray(jax.jacobian(network)(PARAMS, x)).reshape(len(x), 3, 4, -1) for x in (X1, X2)
    )
    found = ntk_of_axes(network, PARAMS, X1, X2, mean_axes, diagonal_axes)
    np.testing.assert_allclose(found, by_hand(first, second, mean_axes, diagonal_axes), atol=1e-12)
    first, second = (np.asarray(network(PARAMS, x))[..., None] for x in (X1, X2))
    found = nngp(network, PARAMS, X1, X2, mean_axes, diagonal_axes)
    np.testing.assert_allclose(found, by_hand(first, second, mean_axes, diagonal_axes), atol=1e-12)


def test_every_input_with_itself_is_the_diagonal():
    """Oracle: the diagonal of the whole kernel."""
    for kernel in (nngp, ntk_of_axes):
        whole = kernel(network, PARAMS, X1, None, (1, 2))
        alone = kernel(network, PARAMS, X1, None, (1, 2), (0,))
        np.testing.assert_allclose(alone, jnp.diagonal(whole), rtol=1e-12)


@pytest.mark.parametrize(
    ("mean_axes", "diagonal_axes", "message"),
    [
        ((0,), (), "must not name the axis of samples"),
        ((-1,), (2,), "averaged or diagonal"),
        ((3,), (), "with 3 axes, got 3"),
    ],
)
def test_axes_that_make_no_sense_are_refused(mean_axes, diagonal_axes, message):
    with pytest.raises(ValueError, match=message):
        nngp(network, PARAMS, X1, X2, mean_axes, diagonal_axes)
