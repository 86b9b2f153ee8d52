"""Sweeps: many settings of one experiment, asked for at once.

    experiment, axes, seeds ─► Plan (a set of keys) ─► drive(engine) ─► store ─► rows ─► Sweep

A sweep is a set of keys of outcomes. What is in the store is read, what is missing is submitted; so
it can be stopped at any time and asked again, on this machine or on a cluster.
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

if TYPE_CHECKING:
    from .engine import Engine as Engine
    from .plan import Plan as Plan
    from .result import Sweep as Sweep

_LATER = {"Engine": ".engine", "Plan": ".plan", "Sweep": ".result"}

__getattr__, __dir__ = lazy(__name__, _LATER)
