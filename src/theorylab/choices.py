"""Choices that many experiments offer: a field of `Config` may have one of these types by its name.

Nothing heavy is imported here, so that the command line knows the choices at once.
"""

from typing import Literal

ImageSet = Literal["digits", "mnist5k", "mnist", "fashion_mnist", "cifar10", "svhn", "usps"]

# Networks for images by the names that they have in `theorylab.models`, and what they learn where
# catapults are watched: see `theorylab.experiments.dynamics.spikes._tasks`.
ImageNetwork = Literal["mlp", "cnn", "wide_resnet", "vit", "myrtle"]
TaskData = Literal["contrast", "rank-2", "rank-4", "images"]
