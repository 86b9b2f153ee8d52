"""Planted cards: every status, every kind of interval, curves, and text that wants to break out."""

import math

import numpy as np
import pytest

from theorylab.answers.figure import curve, ranked
from theorylab.checkup import Card, Measure, Reading, Row, Sentence
from theorylab.checkup.measure import Group
from theorylab.claims import Source

HOSTILE = "</style><script>alert(\"1\")</script> [bold]'x' & \x1b[31m"
SPECTRUM = 8.0 / np.arange(1, 13) ** 2


def never(subject):
    raise AssertionError("a planted measure is not read")


def draw_spectrum(reading, axes):
    ranked(axes, reading.curves["eigenvalues"], reading.curves["errors"], y="eigenvalue λ")
    axes.set_yscale("log")


def draw_density(reading, axes):
    curve(axes, reading.curves["places"], reading.curves["density"])
    axes.set(xlabel="eigenvalue λ", ylabel="density")


def draw_wrongly(reading, axes):
    raise KeyError("a curve that is not there")


def measure(
    name="sharpness", group: Group = "learning rate", title="sharpness λ_max(∇²L)", **changes
):
    told = {
        "read": never,
        "source": Source("arora", "sharpness", "§2.6"),
        "experiment": "dynamics/edge_of_stability",
    }
    return Measure(name, group, title, **(told | changes))


SHARPNESS = Reading(
    value=12.3,
    low=12.3,
    high=12.3004,
    certainty="certified",
    method="Lanczos, 23 Hessian products on 1,000 inputs",
    meaning="gradient descent is stable below a learning rate of 0.163",
    products=23,
)
STABILITY = Reading(
    value=1.02,
    low=1.01,
    high=1.03,
    certainty="95 %",
    method="learning rate 0.1652 over the edge 2/λ",
    meaning="the learning rate is at the edge of stability, within the error",
    details={"phase": "edge", "learning rate": 0.1652, "flagged": ""},
)
SPECTRAL = Reading(
    value=8.0,
    low=math.nan,
    high=math.nan,
    certainty="estimate",
    method="Lanczos with 40 steps",
    meaning="3 directions stand out of the bulk; training stays among them",
    details={"outliers": 3.0, "bulk edge": math.nan},
    curves={"eigenvalues": SPECTRUM, "errors": np.full(12, 0.02)},
)
DENSITY = Reading(
    value=0.9,
    low=0.88,
    high=0.93,
    certainty="95 %",
    method="20 random probes",
    meaning="90 % of the eigenvalues are nearly 0",
    curves={
        "names": np.array(["[0]['weight']", "β"]),
        "places": np.linspace(-1, 9, 60),
        "density": np.exp(-((np.linspace(-1, 9, 60) - 1) ** 2)),
    },
)
DEAD = Reading(
    value=0.0,
    low=0.0,
    high=0.004,
    certainty="95 %",
    method="Clopper–Pearson over 1,000 inputs",
    meaning="every unit is moved by some input",
)
BOUND = Reading(
    value=3.1,
    low=-math.inf,
    high=3.1,
    certainty="certified",
    method="norms of 4 layers",
    meaning="it is above 1, so it promises nothing for this network",
)


@pytest.fixture
def card() -> Card:
    spectral = measure(
        "hessian_spectrum", "curvature", "top of the Hessian's spectrum", draw=draw_spectrum
    )
    density = measure(
        "hessian_density",
        "curvature",
        "density of the Hessian's spectrum",
        draw=draw_density,
        experiment="curvature/hessian_in_ball",
    )
    noise = measure("gradient_noise", title="gradient-noise scale", needs=("batch_size",))
    ansatz = measure(
        "feature_ansatz",
        "features",
        "neural feature ansatz",
        source=Source("zhu", "nfa", "Eq. 5.1"),
        experiment="features/agop/sgd",
    )
    rows = (
        Row(measure(), "measured", SHARPNESS, 1.25),
        Row(measure("stability", title="learning rate over 2/λ"), "measured", STABILITY, 0.01),
        Row(noise, "missing", reason="pass batch_size="),
        Row(spectral, "measured", SPECTRAL, 3.5),
        Row(density, "measured", DENSITY, 2.0),
        Row(measure("dead_units", "features", "dead units"), "measured", DEAD, 0.3),
        Row(ansatz, "failed", seconds=0.2, reason="ValueError: no layer has weights"),
        Row(
            measure("spectral_margin", "generalization", "spectral margin bound"),
            "measured",
            BOUND,
            0.1,
        ),
        Row(
            measure("tangent_bound", "generalization", "tangent bound"),
            "skipped",
            seconds=0.1,
            reason='it would take about 300 s; force="tangent_bound" computes it',
        ),
    )
    verdict = (
        Sentence("edge", "The learning rate is at the edge of stability: sharpness is near 2/η."),
        Sentence("rich", "Training was rich: the tangent kernel moved by 83 %."),
    )
    about = {
        "parameters": 12345.0,
        "inputs": 1000.0,
        "outputs": 10.0,
        "loss": "cross_entropy, mean",
        "seconds": 8.6,
    }
    return Card(rows, verdict, about)


@pytest.fixture
def hostile() -> Card:
    """Words that want to be markup, in a group, a title, a meaning, a detail and a name."""
    reading = Reading(
        value=math.nan,
        low=math.nan,
        high=math.inf,
        certainty="estimate",
        method=HOSTILE,
        meaning=HOSTILE,
        details={HOSTILE: HOSTILE},
        curves={HOSTILE: np.ones(3)},
    )
    bad = measure(
        HOSTILE,
        title=HOSTILE,
        source=Source("own2020", HOSTILE, HOSTILE),
        experiment=HOSTILE,
        draw=draw_wrongly,
    )
    rows = (Row(bad, "measured", reading, 1.0), Row(bad, "failed", reason=HOSTILE))
    return Card(rows, (Sentence("edge", HOSTILE),), {HOSTILE: HOSTILE, "inputs": math.nan})


@pytest.fixture
def empty() -> Card:
    return Card(rows=(), verdict=(), about={})


@pytest.fixture
def numpy_numbers() -> Card:
    """What measures give that count as numbers of Python, but are NumPy's."""
    reading = Reading(
        value=np.float64(0.5),
        low=np.float64(0.4),
        high=np.float64(0.6),
        certainty="95 %",
        method="probes",
        meaning="half",
        products=7,
        details={"rank": np.float64(3), "share": np.float64(0.25)},
        curves={"values": np.arange(4)},
    )
    return Card((Row(measure(), "measured", reading, 0.1),), (), {"inputs": 4.0})
