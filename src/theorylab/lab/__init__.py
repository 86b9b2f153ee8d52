"""The lab: runs experiments, judges their claims, and keeps what came out.

    name, fields ─► run ─► conduct(experiment, config) ─► Outcome ─► Store

What is in the store already is read without JAX.
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

from .failure import Refused as Refused
from .failure import RunFailed as RunFailed

if TYPE_CHECKING:
    from .found import Found as Found
    from .found import Hit as Hit
    from .outcome import Judged as Judged
    from .outcome import Outcome as Outcome
    from .store import Store as Store

_LATER = {
    "Found": ".found",
    "Hit": ".found",
    "Judged": ".outcome",
    "Outcome": ".outcome",
    "Store": ".store",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
