"""What may be told of a training run besides its network and data: arguments of `Watch`."""

from collections.abc import Callable
from typing import Any, TypedDict

from theorylab.typing import Apply, Inputs, Params, Reduction


class Facts(TypedDict, total=False):
    """What is known of a run from its beginning; `examine` takes the same words.

    Example:
        >>> Facts(learning_rate=0.1, optimizer="sgd")["optimizer"]
        'sgd'
    """

    outputs: Reduction | None  # what reduces the outputs to (n, k), if they are not
    learning_rate: float | None  # a call may say another one, when it changes
    optimizer: str | None  # "sgd", "momentum", "nesterov", "adam", "adamw" or "rmsprop"
    momentum: float | None  # of "momentum" and "nesterov"; β₁ of Adam
    batch_size: int | None
    initial_params: Params | None  # where training began; by default those of the first call
    checkpoint: Params | None  # of another run, or of another time
    by_width: Callable[[int], tuple[Apply, Params]] | None  # the network at other widths
    x_test: Inputs | None
    y_test: Any
