"""All measures by name, in the card's order."""

from ..measure import Measure
from . import curvature, learning

_GROUPS = (learning.MEASURES, curvature.MEASURES)
MEASURES: dict[str, Measure] = {measure.name: measure for group in _GROUPS for measure in group}
