"""Networks for images, from a few numbers, as architectures that every reading takes.

    wide_resnet    convolution, three groups of residual blocks of widths 16k, 32k, 64k, pooling
    resnet         convolution, four groups of residual blocks of widths m, 2m, 4m, 8m, pooling
    myrtle         four 3×3 convolutions with 2×2 pooling after the last three, pooling
    vit            patches, blocks of self-attention and of a two-layer network, pooling

`normalized=True` puts `LayerNorm` over the channels before every activation. `wide_resnet` may have
`BatchNorm` there; then an output depends on its batch, and no kernel of two inputs is defined.
Images have the shape (height, width, channels). The plain convolutional network with a flattened
output layer is `cnn`: `cnn([512] * 4, (3, 3))` has five layers.

Source: zhu · dag-zoo · A.4–A.6; zhu · sgd-ntk-drop · Fig. 4.7, C.11.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .activations import Elementwise
from .architecture import (
    Activation,
    Architecture,
    AvgPool,
    BatchNorm,
    Conv,
    Dense,
    GlobalPool,
    LayerNorm,
    Residual,
    Serial,
)
from .mixing import SelfAttention


def wide_resnet(
    depth: int = 10,
    widening: int = 10,
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
    base: int = 16,
    normalized: bool = False,
    norm: Literal["layer", "batch"] = "layer",
) -> Serial:
    """A wide residual network WRN-depth-widening (Zagoruyko and Komodakis 2016), pre-activated.

    The second and the third group halve the positions. Where a block changes the shape, a 1×1
    convolution is its shortcut.

    Args:
        depth: The number of layers, 6b + 4 for b blocks in every group: 10, 16, 22, …
        widening: k, the factor of all widths.
        num_outputs: The number of outputs.
        activation: φ, by name or as a function.
        base: The channels of the first convolution, and of the first group before widening.
        normalized: Whether a normalisation comes before every activation.
        norm: Which one: `LayerNorm`, or `BatchNorm` with trained gains as in the source.

    Example:
        >>> wide_resnet(10, 2).output_shape((8, 8, 3))
        (1,)
    """
    blocks, odd = divmod(depth - 4, 6)
    if blocks < 1 or odd:
        raise ValueError(f"depth must be 10, 16, 22, ..., got {depth}.")
    _check_counts(widening=widening, num_outputs=num_outputs, base=base)
    widths = [base * widening * 2**group for group in range(3)]
    before = _before(activation, normalized, norm)
    return _residual_groups(base, widths, blocks, num_outputs, before)


def resnet(
    width: int = 64,
    num_outputs: int = 1,
    blocks: int = 2,
    activation: str | Elementwise = "relu",
    normalized: bool = False,
) -> Serial:
    """A residual network ResNet(width) for small images (He et al. 2016), pre-activated.

    Four groups of blocks, each but the first halving the positions and doubling the width;
    resnet(64) has the convolutions of ResNet-18, but for the first, which is 3×3 here.

    Args:
        width: m, the channels of the first convolution and of the first group.
        num_outputs: The number of outputs.
        blocks: In every group.
        activation: φ, by name or as a function.
        normalized: Whether `LayerNorm` comes before every activation.

    Example:
        >>> resnet(4, 10, blocks=1).output_shape((16, 16, 1))
        (10,)
    """
    _check_counts(width=width, num_outputs=num_outputs, blocks=blocks)
    widths = [width * 2**group for group in range(4)]
    return _residual_groups(width, widths, blocks, num_outputs, _before(activation, normalized))


def _residual_groups(
    base: int,
    widths: Sequence[int],
    blocks: int,
    num_outputs: int,
    before: tuple[Architecture, ...],
) -> Serial:
    """A convolution, groups of blocks, and outputs from the mean over the positions."""
    layers: list[Architecture] = [Conv(base, (3, 3), padding="same")]
    channels = base
    for group, width in enumerate(widths):
        for block in range(blocks):
            stride = 2 if group > 0 and block == 0 else 1
            layers.append(_block(channels, width, stride, before))
            channels = width
    return Serial(*layers, *before, GlobalPool(), Dense(num_outputs))


def _block(
    channels: int, width: int, stride: int, before: tuple[Architecture, ...]
) -> Residual | Serial:
    """Two convolutions beside a shortcut."""
    strides = (stride, stride)
    branch = (
        Conv(width, (3, 3), strides, padding="same"),
        *before,
        Conv(width, (3, 3), padding="same"),
    )
    if channels == width and stride == 1:
        return Residual(Serial(*before, *branch))
    # Both ways read the activated input, as in the source of the architecture.
    shortcut = Conv(width, (1, 1), strides, padding="same")
    return Serial(*before, Residual(Serial(*branch), shortcut))


def myrtle(
    channels: Sequence[int],
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
) -> Serial:
    """Myrtle-5 (Shankar et al. 2020): four 3×3 convolutions, average pooling, a linear output.

    Args:
        channels: Those of the four convolutions.
        num_outputs: The number of outputs.
        activation: φ, by name or as a function.

    Example:
        >>> myrtle([8, 8, 8, 8], 10).output_shape((32, 32, 3))
        (10,)
    """
    if len(channels) != 4:
        raise ValueError(f"channels must be four numbers, got {list(channels)}.")
    layers: list[Architecture] = []
    for number, count in enumerate(channels):
        layers += [Conv(count, (3, 3), padding="same"), Activation(activation)]
        if number > 0:
            layers.append(AvgPool((2, 2)))
    return Serial(*layers, GlobalPool(), Dense(num_outputs))


def vit(
    depth: int = 4,
    width: int = 64,
    num_heads: int = 4,
    patch: int = 4,
    num_outputs: int = 1,
    activation: str | Elementwise = "gelu",
) -> Serial:
    """A vision transformer (Dosovitskiy et al. 2021) without position embeddings.

    Patches enter through a linear layer; every block adds self-attention and then a two-layer
    network of 4 · width neurons, each after a `LayerNorm`; outputs read the mean over the patches.
    Without position embeddings the patches are a set, whose order does not count.

    Args:
        depth: The number of blocks.
        width: The channels of a patch; a multiple of the number of heads.
        num_heads: The heads of the self-attention.
        patch: The side of a patch in pixels, of which the image's sides are multiples.
        num_outputs: The number of outputs.
        activation: φ, by name or as a function.

    Example:
        >>> vit(depth=2, width=8, num_heads=2).output_shape((8, 8, 1))
        (1,)
    """
    _check_counts(depth=depth, width=width, num_heads=num_heads, patch=patch)
    _check_counts(num_outputs=num_outputs)
    if width % num_heads:
        raise ValueError(f"width must be a multiple of {num_heads} heads, got {width}.")
    layers: list[Architecture] = [_Tiles(width, (patch, patch), (patch, patch))]
    for _ in range(depth):
        attention = SelfAttention(width, num_heads, width // num_heads)
        inner = (Dense(4 * width), Activation(activation), Dense(width))
        layers += [Residual(Serial(LayerNorm(), attention)), Residual(Serial(LayerNorm(), *inner))]
    return Serial(*layers, LayerNorm(), GlobalPool(), Dense(num_outputs))


@dataclass(frozen=True)
class _Tiles(Conv):
    """A convolution of windows that lie beside each other and leave no pixel over."""

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """As that of any, if windows tile the image."""
        if any(side % step for side, step in zip(input_shape, self.strides, strict=False)):
            raise ValueError(
                f"the sides of an image must be multiples of its patches' {self.strides},"
                f" got {input_shape[:-1]}."
            )
        return super().output_shape(input_shape)


def _before(
    activation: str | Elementwise, normalized: bool, norm: Literal["layer", "batch"] = "layer"
) -> tuple[Architecture, ...]:
    """What comes before a convolution in a residual block."""
    if norm not in ("layer", "batch"):
        raise ValueError(f"norm must be layer or batch, got {norm!r}.")
    if not normalized:
        return (Activation(activation),)
    return (LayerNorm() if norm == "layer" else BatchNorm(), Activation(activation))


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}.")
