"""An outcome that nobody ran, for tests of the store."""

import math
from dataclasses import replace

import numpy as np

from theorylab.claims.claim import Demand, Finding, Source, Verdict
from theorylab.lab import Judged, Outcome


def judged(measured: float) -> Judged:
    finding = Finding(
        measured, -math.inf, measured, Demand(high=1.0), Verdict.INCONCLUSIVE, "made up"
    )
    source = Source("zhu", "nqm-2d-map", "Eq. 3.11")
    claim = Judged("It holds η.", r"\eta", source, "claim", Verdict.REFUTED, finding)
    return replace(claim, quote="η holds", regime="width > 2", why="Too few.", demand="source")


def made_up(key: str = "0123456789abcdef", **changes) -> Outcome:
    outcome = Outcome(
        experiment="toys/coin",
        title="Title",
        formula="x",
        preset="smoke",
        config={"width": 3, "ratio": 0.1, "name": "η", "sizes": [1, 2], "fair": True},
        judged=(judged(0.5), judged(math.nan), judged(math.inf)),
        arrays={"a": np.arange(3.0), "b.c": np.array([[1, 2]]), "text": np.array("η")},
        figure="<svg>η</svg>",
        seconds=1.5,
        environment={"jax": "1"},
        key=key,
    )
    return replace(outcome, **changes)
