"""While a convolutional network learns, its neurons fall silent: activations become sparse.

A neuron of a fresh ReLU layer is active, φ(z) > 0, for about half of the images. During training
the share falls, in most layers step by step: neurons specialise, and are silent on what is not
theirs. This is what lets a network ignore noise that a fixed kernel cannot.

The protocol is the source's: momentum 0.9, weight decay 5·10⁻⁴‖w‖², a learning rate that falls to
a fifth at 2/5, 1/2 and 3/5 of training. Weight decay and the falling rate are part of what is
measured; `undecayed` shows the same without weight decay. Where the source has batch normalisation
there is layer normalisation here, unless `norm` is "batch"; `--images mnist5k` takes larger images.

`paper` is WRN-10-10 on CIFAR-10 for 200 epochs, 18 times, each a block: 14 GB. By the count of
operations a step takes 10 seconds of a core, so this is for a GPU: about an hour for each network.
Neurons are counted on 256 images at a time, the statistics of batch normalisation being theirs.

Source: karp · wrn-sparsity · 3.1, Fig. 3.2, B.3.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, median_at_least, median_at_most, ordered, trend
from theorylab.data import Dataset, image_set
from theorylab.data.backgrounds import downsample
from theorylab.data.downloads import image_shape
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.features import accuracy
from theorylab.features.activity import activations, active_shares
from theorylab.fields import Count, ImageSet, OpenFraction, Positive, Seeded, within
from theorylab.models import (
    Activation,
    Architecture,
    Conv,
    Dense,
    GlobalPool,
    LayerNorm,
    Serial,
    Standard,
    network,
    wide_resnet,
)
from theorylab.models.network import in_batches
from theorylab.models.unfold import im2col, map_layers
from theorylab.progress import report
from theorylab.training import Batches, cross_entropy, empirical_risk, ensemble, sgd, stepwise
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"s_l = \mathbb{E}_x\, \frac{1}{n_l} \#\{i : \phi(z_{l,i}(x)) > 0\}"

SPARSE = Source("karp", "wrn-sparsity", "Fig. 3.2")
PROTOCOL = Source("karp", "wrn-sparsity", "B.3")

FROZEN = 1e-4  # by how much the control learns slower
TOGETHER = 256  # images on which neurons are counted at once


@dataclass(frozen=True)
class Config(Seeded):
    """Active neurons of every ReLU layer along training."""

    images: ImageSet = "digits"
    shrink: Count = 1  # the side of the square that becomes one pixel
    architecture: Literal["cnn", "wide_resnet"] = "wide_resnet"
    norm: Literal["layer", "batch"] = "layer"  # of the wide_resnet; the source's is "batch"
    width: Count = 8  # channels of the first convolution (wide_resnet: of the first group)
    widening: Count = 1  # of the wide_resnet
    num_train: Count = 1200
    num_probed: Count = 256  # images on which neurons are counted
    batch_size: Count = 64
    num_epochs: Count = 16
    learning_rate: Positive = 0.1  # at the start
    weight_decay: OpenFraction = 0.0005  # in front of ‖w‖²
    num_records: Annotated[int, within(4, 100)] = 9  # times, about 0, 1, 2, 4, … epochs
    num_seeds: Count = 6  # at least 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.batch_size, self.num_probed) > self.num_train:
            raise ValueError(
                f"batch_size and num_probed must be at most {self.num_train}, "
                f"got {self.batch_size} and {self.num_probed}."
            )

    @property
    def num_steps(self) -> int:
        """All steps of training."""
        return self.num_epochs * self.num_train // self.batch_size


# The source: WRN-10-10 on CIFAR-10, 200 epochs.
PRESETS = {
    "smoke": Config(
        architecture="cnn",
        num_train=800,
        batch_size=32,
        num_epochs=5,
        learning_rate=0.03,
        num_records=4,
    ),
    "paper": Config(
        images="cifar10",
        norm="batch",
        width=16,
        widening=10,
        num_train=50000,
        num_probed=1000,
        batch_size=128,
        num_epochs=200,
    ),
}


class Result(NamedTuple):
    """What was measured: axes seeds (s), records (t), layers (l)."""

    epochs: Float[np.ndarray, " t"]
    shares: Float[np.ndarray, "s t l"]  # of active neurons
    undecayed: Float[np.ndarray, "s t l"]  # without weight decay
    frozen: Float[np.ndarray, "s t l"]  # at a learning rate of nearly 0
    accuracy: Float[np.ndarray, "s t"]  # on the probed images, which are trained on


def memory(config: Config) -> int:
    """Bytes of images, and of patches of all layers on a batch or on probed images, on two cores.

    A program that was compiled for the source's network needs 6.3 and 3.2 times the patches of the
    first layer.
    """
    height, width, channels = image_shape(config.images)
    pixels = height * width // config.shrink**2
    patches = 9 * pixels * config.width * config.widening
    together = max(4 * min(config.num_probed, TOGETHER), 8 * config.batch_size)
    return 4 * (2 * together * patches + 3 * config.num_train * pixels * channels)


def run(config: Config) -> Result:
    """Train with the protocol, without weight decay, and with a rate of nearly 0."""
    # Not in [0, 1]: black pixels would give z = 0, and any change of a bias would flip them all.
    images = image_set(config.images, scaling="standard")
    if images.num_samples < config.num_train:
        raise ValueError(f"num_train must be at most {images.num_samples}, got {config.num_train}.")
    data = Dataset(downsample(images.x, config.shrink), images.y, images.law, images.source)
    steps = _steps(config)
    report(f"training {3 * config.num_seeds} networks", 0.05)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    rates = np.repeat([1.0, 1.0, FROZEN], config.num_seeds)
    decays = np.repeat([1.0, 0.0, 1.0], config.num_seeds)
    inputs = (jnp.tile(keys, 3), jnp.asarray(rates, float), jnp.asarray(decays, float))
    shares, right = ensemble(_watched(config, data, steps), inputs)
    decayed, undecayed, frozen = np.split(np.asarray(shares), 3)
    return Result(
        epochs=steps * config.batch_size / config.num_train,
        shares=decayed,
        undecayed=undecayed,
        frozen=frozen,
        accuracy=np.asarray(right)[: config.num_seeds],
    )


def _steps(config: Config) -> Int[np.ndarray, " t"]:
    """0, and steps up to the last whose ratios are about equal."""
    first = max(config.num_train // config.batch_size // 2, 1)
    later = np.geomspace(first, config.num_steps, config.num_records - 1).round().astype(int)
    return np.unique(np.append(0, later))


def _architecture(config: Config, num_outputs: int) -> Architecture:
    """The network, its convolutions unfolded, its normalisations with trained gains and offsets."""
    if config.architecture == "wide_resnet":
        layers = wide_resnet(
            10, config.widening, num_outputs, "relu", config.width, True, config.norm
        )
    else:
        width = config.width
        convolutions = [
            Conv(width, (3, 3), padding="same"),
            Conv(2 * width, (3, 3), (2, 2)),
            Conv(4 * width, (3, 3)),
        ]
        after = (LayerNorm(), Activation("relu"))
        hidden = [layer for each in convolutions for layer in (each, *after)]
        layers = Serial(*hidden, GlobalPool(), Dense(num_outputs))
    trained = map_layers(
        layers, lambda layer: LayerNorm(affine=True) if isinstance(layer, LayerNorm) else layer
    )
    return im2col(trained)


def _watched(config: Config, data: Dataset, steps: Int[np.ndarray, " t"]):
    """(key, factors of rate and decay) ─► shares of active neurons and accuracy at every record."""
    settings = (_architecture(config, data.num_outputs), data.input_shape)
    standard = Standard(weight_scale=2**0.5)
    model = network(*settings, standard, bias="zero")
    probe = activations(*settings, standard, bias="zero")
    loss_of = empirical_risk(cross_entropy("mean"), model.apply)
    boundaries = sorted({max(config.num_steps * part // 10, 1) for part in (4, 5, 6)})
    falling = stepwise([0.2**turn for turn in range(len(boundaries) + 1)], boundaries)

    def one(given: tuple[RandomKey, Array, Array]) -> tuple[Array, Array]:
        key, factor, decay = given
        order_key, start_key, batch_key = jax.random.split(key, 3)
        order = jax.random.permutation(order_key, data.num_samples)[: config.num_train]
        train = data.subset(order)
        seen = train.subset(slice(config.num_probed))
        # The gradient of 5·10⁻⁴‖w‖², without a half, is 10⁻³w.
        optimizer = optax.chain(
            optax.add_decayed_weights(2 * config.weight_decay * decay),
            optax.sgd(lambda step: config.learning_rate * factor * falling(step), momentum=0.9),
        )
        measure = lambda params: (  # noqa: E731
            active_shares(probe, params, seen.x, TOGETHER),
            accuracy(in_batches(model.apply, TOGETHER)(params, seen.x), seen.y),
        )
        start, batches = model.init(start_key), Batches(config.batch_size)
        run = sgd(loss_of, start, train, optimizer, batches, steps, measure, batch_key)
        return run.records

    return one


def _sparser(result: Result) -> Float[np.ndarray, " s"]:
    """The part of each network's layers that have fewer active neurons at the end."""
    return np.mean(result.shares[:, -1] < result.shares[:, 0], axis=1)


CLAIMS = (
    SPARSE.claim(
        "In the mean over layers, the share of active neurons falls throughout training.",
        lambda r, c: trend(r.shares.mean(axis=2).T, increasing=False),
        quote="activation patterns become increasingly sparse throughout training",
    ),
    SPARSE.claim(
        "In most layers of a network fewer neurons are active at the end than at the start.",
        lambda r, c: median_at_least(_sparser(r), 0.51),
        quote="Sparsity of intermediate WRN layers during training",
        regime="architecture == 'wide_resnet' and num_epochs >= 16",
        demand="lab: more than half",
    ),
    PROTOCOL.check(
        "The networks learn: they fit 90 % of their images.",
        lambda r, c: median_at_least(r.accuracy[:, -1], 0.9),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    PROTOCOL.found(
        "Weight decay is not needed: without it, fewer are active at the end than at the start.",
        lambda r, c: ordered(r.undecayed[:, -1].mean(axis=1), r.undecayed[:, 0].mean(axis=1)),
    ),
    SPARSE.control(
        "A network that hardly learns keeps its neurons: its mean share moves less than 0.01.",
        lambda r, c: median_at_most(
            np.abs(r.frozen - r.frozen[:, :1]).mean(axis=2).max(axis=1), 0.01
        ),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Shares of every layer along training, with and without weight decay, and accuracy."""
    figure, axes = panels("active neurons, layer by layer", "without weight decay", "accuracy")
    for axis, shares in ((axes[0], result.shares), (axes[1], result.undecayed)):
        layers = range(shares.shape[2])
        curves(axis, result.epochs, {f"layer {i + 1}": shares[..., i] for i in layers})
        frozen = result.frozen.mean(axis=(0, 2))
        axis.plot(result.epochs, frozen, ":", color="#999999", label="mean, hardly learning")
        axis.legend(fontsize=6)
    curves(axes[2], result.epochs, {"trained images": result.accuracy})
    for axis in axes:
        axis.set_xscale("symlog", linthresh=1)
        label_axes(axis, "epoch")
    return figure
