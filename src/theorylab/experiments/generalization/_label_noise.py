"""Pairs of handwritten digits of which more and more have random labels, and their kernels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from theorylab.data import Dataset, digits, mnist5k
from theorylab.fields import Count, Seeded, within
from theorylab.kernels import two_layer
from theorylab.typing import RandomKey

PAIRS = ((0, 1), (3, 8))


@dataclass(frozen=True)
class LabelNoise(Seeded):
    """Pairs of handwritten digits, more and more of them with random labels."""

    images: Literal["digits", "mnist5k"] = "digits"  # which images
    num_samples: Count = 200  # training images n
    num_test: Count = 150  # test images
    num_levels: Annotated[int, within(3)] = 11  # parts of random labels from 0 to 1
    num_noises: Count = 4  # draws of random labels for the same images
    num_seeds: Count = 8  # draws of images, labels and network

    def __post_init__(self) -> None:
        super().__post_init__()
        most, total = 350 if self.images == "digits" else 1000, self.num_samples + self.num_test
        if total > most:
            must = f"num_samples + num_test must be at most {most} for {self.images}"
            raise ValueError(f"{must}, got {total}.")

    @property
    def parts(self) -> np.ndarray:
        """Parts of random labels."""
        return np.linspace(0, 1, self.num_levels)


class Images(NamedTuple):
    """One pair of digits with the randomness of one seed."""

    x: Float[Array, "n d"]
    tests: Float[Array, "n2 d"]
    kernel: Float[Array, "n n"]  # H*
    cross: Float[Array, "n2 n"]
    labels: Float[np.ndarray, "n noises p"]
    test_labels: Float[np.ndarray, "n2 noises p"]  # as random as those of training
    true: Float[np.ndarray, " n2"]  # labels of the tests

    @property
    def predicted(self) -> Float[np.ndarray, "n2 noises p"]:
        """What the kernel's predictor, which fits all training labels, says of the tests."""
        flat = self.labels.reshape(len(self.x), -1)
        outputs = np.asarray(self.cross) @ np.linalg.solve(np.asarray(self.kernel), flat)
        return outputs.reshape(self.test_labels.shape)


def reader(images: str) -> Callable[..., Dataset]:
    """What reads these images."""
    return digits if images == "digits" else mnist5k


def drawn_images(key: RandomKey, config: LabelNoise) -> list[list[Images]]:
    """Images and labels of every seed and pair."""
    num_rows = 1 + 2 * config.num_noises  # for images, and for labels
    shape = (config.num_seeds, len(PAIRS), num_rows, 1000)
    uniform = np.asarray(jax.random.uniform(key, shape))
    images = [reader(config.images)("unit", pair, "sign").centred() for pair in PAIRS]
    return [
        [_drawn(images[k], uniform[s, k], config) for k in range(len(PAIRS))]
        for s in range(config.num_seeds)
    ]


def _drawn(images: Dataset, uniform: np.ndarray, config: LabelNoise) -> Images:
    """Choose images; give each a coin flip for a label, at every part above its own number."""
    signs = np.asarray(images.y[:, 0])
    n, total = config.num_samples, config.num_samples + config.num_test
    chosen = np.argsort(uniform[0, : len(signs)])[:total]
    own, coins = uniform[1::2, :total].T, uniform[2::2, :total].T
    random = own[:, :, None] < config.parts[None, None, :]
    labels = np.where(
        random, np.where(coins < 0.5, -1.0, 1.0)[:, :, None], signs[chosen, None, None]
    )
    x, tests = images.x[chosen[:n]], images.x[chosen[n:]]
    kernel, cross = two_layer.limit_kernel(x), two_layer.limit_kernel(tests, x)
    return Images(x, tests, kernel, cross, labels[:n], labels[n:], signs[chosen[n:]])
