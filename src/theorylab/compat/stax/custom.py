"""What Neural Tangents has for layers of one's own; here a `CustomLayer` takes their place."""

from collections.abc import Callable
from typing import Any, NoReturn

_INSTEAD = (
    "is not there: write the layer as a theorylab.models.custom_layer.CustomLayer, and give it to "
    "stax.from_architecture."
)


def layer(layer_fn: Callable[..., Any]) -> NoReturn:
    """Say what to use instead.

    Example:
        >>> layer(lambda: None)
        Traceback (most recent call last):
        ...
        NotImplementedError: stax.layer is not there: write the layer as a ...
    """
    raise NotImplementedError(f"stax.layer {_INSTEAD}")


def requires(**static_reqs: Any) -> NoReturn:
    """Say what to use instead.

    Example:
        >>> requires(diagonal_spatial=True)
        Traceback (most recent call last):
        ...
        NotImplementedError: stax.requires is not there: write the layer as a ...
    """
    raise NotImplementedError(f"stax.requires {_INSTEAD}")


def supports_masking(remask_kernel: bool) -> NoReturn:
    """Say what to use instead.

    Example:
        >>> supports_masking(True)
        Traceback (most recent call last):
        ...
        NotImplementedError: stax.supports_masking is not there: write the layer as a ...
    """
    raise NotImplementedError(f"stax.supports_masking {_INSTEAD}")


def unmask_fn(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give it back: outputs are arrays, 0 where they are missing.

    Example:
        >>> unmask_fn(len) is len
        True
    """
    return fn
