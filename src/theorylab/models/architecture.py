"""What a network is: a tree of layers, before any weight is drawn.

    Serial(Dense(512), Activation("relu"), Dense(1))

Each layer is a pure description; a reading (a finite network, an infinite-width kernel, ...) makes
of it what it needs. Shapes are those of one input, without the axis of samples: (d,) for vectors,
(height, width, channels) for images. Channels stand last.

Source: zhu · dag-zoo · A.1, A.4–A.6 (fully connected, DenseNet, skip connections, CNN).
"""

import abc
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from theorylab.typing import Scalar

from .activations import Elementwise, activation
from .scales import check_scale
from .windows import Padding, num_transposed_windows, num_windows

Shape = tuple[int, ...]


class Architecture(abc.ABC):
    """A layer, or a tree of layers.

    Example:
        >>> Serial(Dense(16), Activation("relu"), Dense(1)).output_shape((4,))
        (1,)
    """

    @abc.abstractmethod
    def output_shape(self, input_shape: Shape) -> Shape:
        """Give the output shape; raise if the layer cannot take `input_shape`."""


@dataclass(frozen=True)
class Dense(Architecture):
    """A linear map of the channels, y = Wx + b; on images, the same one at every position.

    Args:
        width: The number of channels that come out.
        bias: False: this layer has no bias, even if the network has biases.
        weight_scale: σ_w of this layer, in place of the parametrization's.
        bias_scale: σ_b of this layer, in place of the parametrization's.

    Example:
        >>> Dense(16).output_shape((4,)), Dense(16).output_shape((8, 8, 3))
        ((16,), (8, 8, 16))
    """

    width: int
    bias: bool = True
    weight_scale: Scalar | None = None
    bias_scale: Scalar | None = None

    def __post_init__(self) -> None:
        _check_counts("width", (self.width,))
        _check_scales(self)

    def output_shape(self, input_shape: Shape) -> Shape:
        """Replace the channels."""
        _check_channels(self, input_shape)
        return (*input_shape[:-1], self.width)


@dataclass(frozen=True)
class Conv(Architecture):
    """A convolution over one or more position axes, y(s) = Σᵣ Wᵣ x(s + r) + b.

    Args:
        channels: The number of channels that come out.
        window: The size of the window along every position axis.
        strides: The steps of the window; (): 1 along every axis.
        padding: "valid" (none), "same" (zeros) or "circular" (wrapped around); see `windows`.
        bias: False: this layer has no bias, even if the network has biases.
        weight_scale: σ_w of this layer, in place of the parametrization's.
        bias_scale: σ_b of this layer, in place of the parametrization's.
        shared: False: every position has weights of its own, as in a locally connected layer.

    Example:
        >>> Conv(16, (3, 3), strides=(2, 2), padding="same").output_shape((8, 8, 3))
        (4, 4, 16)
    """

    channels: int
    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    padding: Padding = "valid"
    bias: bool = True
    weight_scale: Scalar | None = None
    bias_scale: Scalar | None = None
    shared: bool = True

    def __post_init__(self) -> None:
        _check_counts("channels", (self.channels,))
        _check_scales(self)
        check_sizes("window", self.window)
        object.__setattr__(self, "strides", self.strides or (1,) * len(self.window))
        _check_window(self.window, self.strides)

    def output_shape(self, input_shape: Shape) -> Shape:
        """Count the windows, replace the channels."""
        _check_positions(self, self.window, input_shape)
        positions = num_windows(input_shape[:-1], self.window, self.strides, self.padding)
        return (*positions, self.channels)


@dataclass(frozen=True)
class ConvTranspose(Architecture):
    """A transposed convolution: x(s) is spread over the window that begins at strides · s.

    Args:
        channels: The number of channels that come out.
        window: The size of the window along every position axis.
        strides: By how much positions are spread apart; (): 1 along every axis.
        padding: "valid", "same" or "circular", of the convolution that this one transposes.
        bias: False: this layer has no bias, even if the network has biases.
        weight_scale: σ_w of this layer, in place of the parametrization's.
        bias_scale: σ_b of this layer, in place of the parametrization's.

    Example:
        >>> ConvTranspose(16, (2, 2), strides=(2, 2)).output_shape((4, 4, 3))
        (8, 8, 16)
    """

    channels: int
    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    padding: Padding = "valid"
    bias: bool = True
    weight_scale: Scalar | None = None
    bias_scale: Scalar | None = None

    def __post_init__(self) -> None:
        _check_counts("channels", (self.channels,))
        _check_scales(self)
        check_sizes("window", self.window)
        object.__setattr__(self, "strides", self.strides or (1,) * len(self.window))
        _check_window(self.window, self.strides)

    def output_shape(self, input_shape: Shape) -> Shape:
        """Spread the positions, replace the channels."""
        _check_positions(self, self.window, input_shape)
        counts = num_transposed_windows(input_shape[:-1], self.window, self.strides, self.padding)
        return (*counts, self.channels)


@dataclass(frozen=True)
class AvgPool(Architecture):
    """The average (or sum) over a window, in every channel.

    Args:
        window: The size of the window along every position axis.
        strides: The steps of the window; (): the window's own size, so that windows tile.
        padding: "valid" (none), "same" (zeros) or "circular" (wrapped around); see `windows`.
        reduce: "mean" or "sum".
        count_padding: Whether padded zeros count as values in a mean.

    Example:
        >>> AvgPool((2, 2)).output_shape((8, 8, 3))
        (4, 4, 3)
    """

    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    padding: Padding = "valid"
    reduce: Literal["mean", "sum"] = "mean"
    count_padding: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "strides", self.strides or self.window)
        _check_window(self.window, self.strides)

    def output_shape(self, input_shape: Shape) -> Shape:
        """Count the windows."""
        _check_positions(self, self.window, input_shape)
        positions = num_windows(input_shape[:-1], self.window, self.strides, self.padding)
        return (*positions, input_shape[-1])


@dataclass(frozen=True)
class GlobalPool(Architecture):
    """The average (or sum) over all positions, in every channel.

    Args:
        reduce: "mean" or "sum".

    Example:
        >>> GlobalPool().output_shape((8, 8, 3))
        (3,)
    """

    reduce: Literal["mean", "sum"] = "mean"

    def output_shape(self, input_shape: Shape) -> Shape:
        """Keep the channels only."""
        _check_channels(self, input_shape)
        return input_shape[-1:]


@dataclass(frozen=True)
class Flatten(Architecture):
    """All positions and channels in one axis.

    Example:
        >>> Flatten().output_shape((8, 8, 3))
        (192,)
    """

    def output_shape(self, input_shape: Shape) -> Shape:
        """Multiply the axes."""
        size = 1
        for axis in input_shape:
            size *= axis
        return (size,)


@dataclass(frozen=True)
class Activation(Architecture):
    """The function φ on every coordinate.

    Args:
        function: A name, or any elementwise function: `Activation("relu")`, `Activation(jnp.tanh)`.

    Example:
        >>> Activation("tanh").output_shape((4,))
        (4,)
    """

    function: str | Elementwise

    def __post_init__(self) -> None:
        activation(self.function)  # raises if there is none

    def output_shape(self, input_shape: Shape) -> Shape:
        """Keep it."""
        return input_shape


@dataclass(frozen=True)
class LayerNorm(Architecture):
    """Mean 0 and variance 1 over some axes of every input: y = γ (x − mean)/√(variance + ε) + β.

    Args:
        affine: True: γ (initially 1) and β (initially 0) of every channel are trained; False: they
            are 1 and 0.
        epsilon: The ε under the root; with 0 the layer is exactly invariant to the scale of x.
        axes: The axes of one input, without that of samples: (-1,) for the channels at every
            position, (0, 1, 2) for all positions and channels of an image. At infinite width the
            channels must be among them.

    Example:
        >>> LayerNorm(affine=True).output_shape((8, 8, 3))
        (8, 8, 3)
    """

    affine: bool = False
    epsilon: float = 1e-6
    axes: tuple[int, ...] = (-1,)

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {self.epsilon}.")
        if not self.axes:
            raise ValueError("axes must have at least one axis, got ().")

    def output_shape(self, input_shape: Shape) -> Shape:
        """Keep it."""
        _check_channels(self, input_shape)
        self.axes_of(input_shape)
        return input_shape

    def axes_of(self, input_shape: Shape) -> tuple[int, ...]:
        """The axes of an input of this shape, counted from its first."""
        size = len(input_shape)
        found = tuple(sorted({axis % size for axis in self.axes}))
        if any(not -size <= axis < size for axis in self.axes) or len(found) < len(self.axes):
            must = f"axes must be different axes of inputs of shape {input_shape}"
            raise ValueError(f"{must}, got {self.axes}.")
        return found


@dataclass(frozen=True)
class BatchNorm(Architecture):
    """Every channel with mean 0 and variance 1 over a batch and all positions, then γ and β.

        y = γ (x − mean)/√(variance + ε) + β

    The statistics are those of the batch that is given, in training and in testing: there are no
    running means. So an output depends on the other inputs of its batch (`in_batches` fixes which
    these are), and no kernel of two inputs is defined. A linearisation differentiates through
    the statistics.

    Args:
        affine: True: γ (initially 1) and β (initially 0) are trained; False: they are 1 and 0.
        epsilon: The ε under the root; with 0 the layer is exactly invariant to the scale of x.

    Example:
        >>> BatchNorm().output_shape((8, 8, 3))
        (8, 8, 3)
    """

    affine: bool = True
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {self.epsilon}.")

    def output_shape(self, input_shape: Shape) -> Shape:
        """Keep it."""
        _check_channels(self, input_shape)
        return input_shape


@dataclass(frozen=True, init=False, repr=False)
class Serial(Architecture):
    """One after the other.

    Example:
        >>> layers = (Conv(8, (3, 3)), Activation("relu"), Flatten(), Dense(10))
        >>> Serial(*layers).output_shape((8, 8, 1))
        (10,)
    """

    layers: tuple[Architecture, ...]

    def __init__(self, *layers: Architecture) -> None:
        object.__setattr__(self, "layers", layers)

    def __repr__(self) -> str:
        return f"Serial({', '.join(map(repr, self.layers))})"

    def output_shape(self, input_shape: Shape) -> Shape:
        """Pass it through."""
        shape = input_shape
        for layer in self.layers:
            shape = layer.output_shape(shape)
        return shape


@dataclass(frozen=True)
class Residual(Architecture):
    """A skip connection, y = shortcut(x) + branch(x); the shortcut is the identity by default.

    Example:
        >>> Residual(Serial(Dense(4), Activation("relu"))).output_shape((4,))
        (4,)
    """

    branch: Architecture
    shortcut: Architecture = Serial()

    def output_shape(self, input_shape: Shape) -> Shape:
        """Both ways must give the same."""
        branch, shortcut = (way.output_shape(input_shape) for way in (self.branch, self.shortcut))
        if branch != shortcut:
            raise ValueError(
                f"Residual needs branch and shortcut of one shape, got {branch} and {shortcut}."
            )
        return branch


@dataclass(frozen=True)
class Product(Architecture):
    """A gate, y = shortcut(x) · branch(x), coordinate by coordinate.

    Example:
        >>> Product(Serial(Dense(4), Activation("sigmoid"))).output_shape((4,))
        (4,)
    """

    branch: Architecture
    shortcut: Architecture = Serial()

    def output_shape(self, input_shape: Shape) -> Shape:
        """Both ways must give the same."""
        branch, shortcut = (way.output_shape(input_shape) for way in (self.branch, self.shortcut))
        if branch != shortcut:
            raise ValueError(
                f"Product needs branch and shortcut of one shape, got {branch} and {shortcut}."
            )
        return branch


@dataclass(frozen=True)
class Concatenate(Architecture):
    """The input beside what is made of it, y = [x; branch(x)], on the channel axis.

    Example:
        >>> Concatenate(Dense(16)).output_shape((4,))
        (20,)
    """

    branch: Architecture

    def output_shape(self, input_shape: Shape) -> Shape:
        """Add the channels."""
        _check_channels(self, input_shape)
        branch = self.branch.output_shape(input_shape)
        if branch[:-1] != input_shape[:-1] or not branch:
            raise ValueError(
                "Concatenate needs a branch that keeps the positions, "
                f"got {input_shape} in and {branch} out."
            )
        return (*input_shape[:-1], input_shape[-1] + branch[-1])


def _check_counts(name: str, counts: tuple[Any, ...]) -> None:
    for count in counts:
        if not isinstance(count, numbers.Integral):
            raise ValueError(f"{name} must be a whole number, got {count!r}.")
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}.")


def _check_scales(layer: "Dense | Conv | ConvTranspose") -> None:
    for name in ("weight_scale", "bias_scale"):
        scale = getattr(layer, name)
        if scale is not None:
            check_scale(name, scale)


def check_sizes(name: str, sizes: Any) -> None:
    """Raise unless sizes are several whole numbers, each at least 1.

    Example:
        >>> check_sizes("widths", 32)
        Traceback (most recent call last):
        ...
        ValueError: widths must be a tuple of whole numbers such as (32,), got 32.
    """
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        example = sizes if isinstance(sizes, int) else 5
        raise ValueError(
            f"{name} must be a tuple of whole numbers such as ({example},), got {sizes!r}."
        )
    _check_counts(name, tuple(sizes))


def _check_window(window: tuple[int, ...], strides: tuple[int, ...]) -> None:
    check_sizes("window", window)
    if not window:
        raise ValueError("window must have at least one axis, got ().")
    check_sizes("strides", strides)
    if len(strides) != len(window):
        raise ValueError(f"strides must have one number per axis of {window}, got {strides}.")


def _check_channels(layer: Architecture, input_shape: Shape) -> None:
    if not input_shape:
        raise ValueError(f"{type(layer).__name__} needs inputs with a channel axis, got shape ().")


def _check_positions(layer: Architecture, window: tuple[int, ...], input_shape: Shape) -> None:
    if len(input_shape) != len(window) + 1:
        raise ValueError(
            f"{type(layer).__name__} with window {window} needs inputs with {len(window)} position "
            f"axes and a channel axis, got shape {input_shape}."
        )
