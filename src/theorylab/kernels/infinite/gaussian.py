"""What layers with a closed form look up: whether their inputs are Gaussian, and the variances."""

from jaxtyping import Array

from .positions import narrowed, placed
from .state import Context, LayerState


def variances(state: LayerState, context: Context) -> tuple[Array, Array]:
    """The variances q at every position of x and x′, placed where pairs of positions need them.

    Example: a variance at each of two positions, as rows and as columns.
        >>> import jax.numpy as jnp
        >>> from theorylab.kernels.infinite.state import Notes, Settings
        >>> from theorylab.models import NTK
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> state = LayerState(kernel, None, (2, 1), paired=True, gaussian=True)
        >>> context = Context(Settings(NTK(), "none", False, tangent=True), Notes())
        >>> [variance.shape for variance in variances(state, context)]
        [(1, 2, 1), (1, 1, 2)]
    """
    q1, q2 = context.notes.of(lambda: narrowed(state).nngp)
    if not state.paired:
        return q1, q2
    num_axes = len(state.shape) - 1
    return placed(q1, num_axes, 1), placed(q2, num_axes, 2)


def check_gaussian(name: str, state: LayerState) -> None:
    """Raise if inputs are not Gaussian.

    Example:
        >>> import jax.numpy as jnp
        >>> check_gaussian("LayerNorm", LayerState(jnp.ones(1), None, (3,), False, gaussian=True))
    """
    if not state.gaussian:
        raise ValueError(
            f"{name} must stand after a Dense layer or another layer of weights (or a Residual of "
            "such): elsewhere its inputs are not Gaussian, and there is no closed form."
        )
