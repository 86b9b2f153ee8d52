"""What experiments with students and teachers on images share: sizes they refuse, bytes they take.

Both take a config with the fields of `features/agop/image_batches`: images, classes, shrink,
num_train, num_known, num_test, widths, channels, teacher_scale, teacher_steps and num_seeds.
"""

import math
from typing import Any

from theorylab.data import image_shape
from theorylab.experiments.checks import refuse_below, refuse_classes, refuse_negative
from theorylab.features.image_tasks import NUM_PRODUCTS
from theorylab.features.teachers import FEWEST


def refuse_image_sizes(config: Any, num_others: int = 0) -> None:
    """Raise unless there are images for students, for teachers and for tests, and networks.

    Args:
        config: A dataclass.
        num_others: How many images, at least, only teachers must know.
    """
    refuse_negative(config)
    refuse_classes(config.classes)
    most = config.num_known - num_others
    if not NUM_PRODUCTS <= config.num_train <= most:
        raise ValueError(
            f"num_train must be from {NUM_PRODUCTS} to {most}, with num_known ="
            f" {config.num_known}, got {config.num_train}."
        )
    refuse_below(config, FEWEST, "num_known")
    refuse_below(config, 1, "shrink", "num_test", "teacher_steps", "num_seeds")
    refuse_below(config, 1, "widths", "channels")
    if not 0 < config.teacher_scale < 1e6:
        raise ValueError(f"teacher_scale must be positive, got {config.teacher_scale}.")


def image_bytes(config: Any) -> int:
    """Bytes of all images, and of activations and the tangent kernel on each of two cores.

    Args:
        config: A dataclass.
    """
    height, width, colours = image_shape(config.images)
    pixels = height * width * colours // config.shrink**2
    images = config.num_known + config.num_test
    students = 6 * config.num_known * (pixels + sum(config.widths)) + 4 * config.num_train**2
    teachers = 4 * images * math.ceil(pixels / colours) * max(config.channels)
    return 4 * (4 * 5 * images * pixels + 2 * (students + teachers))
