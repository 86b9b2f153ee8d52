"""Common architectures from a few numbers.

Source: zhu · dag-zoo · A.4–A.6, A.14–A.15.
"""

from collections.abc import Sequence

from .activations import Elementwise
from .architecture import Activation, Concatenate, Conv, Dense, Flatten, Serial, check_sizes


def mlp(
    widths: Sequence[int],
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
    output_bias: bool = True,
) -> Serial:
    """A fully connected network: f⁽ˡ⁾ = φ(W⁽ˡ⁾f⁽ˡ⁻¹⁾ + b⁽ˡ⁾) for each width, and a linear output.

    Args:
        widths: The number of neurons of every hidden layer; none makes a linear model.
        num_outputs: The number of outputs k.
        activation: φ, by name or as a function.
        output_bias: False: the outputs have no bias, even if the network has biases.

    Example:
        >>> mlp([8], 1) == Serial(Dense(8), Activation("relu"), Dense(1))
        True
    """
    check_sizes("widths", widths)
    hidden = [layer for width in widths for layer in (Dense(width), Activation(activation))]
    return Serial(*hidden, Dense(num_outputs, output_bias))


def densenet(
    widths: Sequence[int], num_outputs: int = 1, activation: str | Elementwise = "relu"
) -> Serial:
    """A DenseNet: every layer reads the input and all layers before it.

    f⁽ˡ⁾ = φ(W⁽ˡ⁾g⁽ˡ⁻¹⁾ + b⁽ˡ⁾), g⁽ˡ⁾ = [g⁽ˡ⁻¹⁾; f⁽ˡ⁾], g⁽⁰⁾ = x, and a linear output of the last g.

    Args:
        widths: The number of neurons that every layer adds.
        num_outputs: The number of outputs k.
        activation: φ, by name or as a function.

    Example:
        >>> densenet([8, 8]).layers[0].output_shape((3,))  # the input beside 8 neurons
        (11,)
    """
    check_sizes("widths", widths)
    blocks = [Concatenate(Serial(Dense(width), Activation(activation))) for width in widths]
    return Serial(*blocks, Dense(num_outputs))


def cnn(
    channels: Sequence[int],
    window: tuple[int, ...],
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
) -> Serial:
    """A convolutional network: stride 1, zero padding, and a linear output of all positions.

    Args:
        channels: The number of channels of every hidden layer.
        window: The size of the window along every position axis.
        num_outputs: The number of outputs k.
        activation: φ, by name or as a function.

    Example:
        >>> cnn([8, 8], window=(3, 3), num_outputs=10).output_shape((8, 8, 1))
        (10,)
    """
    check_sizes("channels", channels)
    hidden = [
        layer
        for count in channels
        for layer in (Conv(count, window, padding="same"), Activation(activation))
    ]
    return Serial(*hidden, Flatten(), Dense(num_outputs))
