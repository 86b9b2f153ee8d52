"""All measures by name, in the card's order."""

from ..measure import Measure
from . import curvature, features, generalization, kernel, learning, width

_GROUPS = (
    learning.MEASURES,
    curvature.MEASURES,
    kernel.MEASURES,
    features.MEASURES,
    width.MEASURES,
    generalization.MEASURES,
)
MEASURES: dict[str, Measure] = {measure.name: measure for group in _GROUPS for measure in group}
