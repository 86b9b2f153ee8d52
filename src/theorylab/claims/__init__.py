"""What a source claims, and what a run says about it.

A claim is a statement with its source and a judge, which turns measured numbers into a finding:
supported, refuted or inconclusive; or not judged, where the config is outside the claim's regime.
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

from .claim import Claim as Claim
from .claim import Demand as Demand
from .claim import Finding as Finding
from .claim import Kind as Kind
from .claim import Source as Source
from .claim import Verdict as Verdict
from .claim import usual_verdict as usual_verdict
from .claim import verdict as verdict
from .regime import fulfils as fulfils

if TYPE_CHECKING:
    from .judges import at_least as at_least
    from .judges import at_most as at_most
    from .judges import between as between
    from .judges import exponent_between as exponent_between
    from .judges import holds as holds
    from .judges import identity as identity
    from .judges import mean_between as mean_between
    from .judges import median_at_least as median_at_least
    from .judges import median_at_most as median_at_most
    from .judges import median_between as median_between
    from .judges import ordered as ordered
    from .judges import probability_at_least as probability_at_least
    from .judges import probability_at_most as probability_at_most
    from .judges import probability_between as probability_between
    from .judges import trend as trend

_LATER = {
    "at_least": ".judges",
    "at_most": ".judges",
    "between": ".judges",
    "exponent_between": ".judges",
    "holds": ".judges",
    "identity": ".judges",
    "mean_between": ".judges",
    "median_at_least": ".judges",
    "median_at_most": ".judges",
    "median_between": ".judges",
    "ordered": ".judges",
    "probability_at_least": ".judges",
    "probability_at_most": ".judges",
    "probability_between": ".judges",
    "trend": ".judges",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
