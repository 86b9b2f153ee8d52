"""Made-up outcomes: calm ones, and ones that want to break the report."""

import math
from dataclasses import replace

import numpy as np
import pytest

from theorylab.claims.claim import Demand, Finding, Kind, Source, Verdict, verdict
from theorylab.lab.outcome import Judged, Outcome

MAP = Source("zhu", "nqm-2d-map", "Eqs 3.11–3.14, Thm 3.3.1")
CHERNOFF = Source("arora", "concentration-lab", "Lemma 2.4")

FIGURE = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"
  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="604.8pt" height="244.8pt"
     viewBox="0 0 604.8 244.8" xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">https://matplotlib.org</dc:title></metadata>
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="axes_1" clip-path="url(#p1)" style="fill: url( #p2 )">
  <defs><path id="m1" d="M 0 0
L 0 3.5"/><clipPath id="p1"><rect x="0" y="0" width="9" height="9"/></clipPath></defs>
  <use xlink:href="#m1" x="1" y="2"/><image href="data:image/png;base64,iVBORw0KGgo=" width="1"/>
 </g>
</svg>
"""

HOSTILE = "</style></code><script>alert(\"1\")</script> 'x' & <img src=http://evil.example/a>"
HOSTILE_FIGURE = """<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)" width="10">
 <script>alert(1)</script><style>@import url(http://evil.example/a.css);</style>
 <foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="http://evil.example/"/></foreignObject>
 <a href="javascript:alert(1)"><rect onclick="alert(1)" fill="url(http://evil.example/#a)"/></a>
 <image href="http://evil.example/a.png"/><use href="//evil.example/a.svg#b"/>
 <image href="data:image/svg+xml;base64,AAAA"/><set attributeName="href" to="javascript:alert(1)"/>
 <rect style="fill: u\\72l(http://evil.example/b)"/><text class="x">&lt;script&gt;</text>
</svg>"""


def make_judged(
    statement="The recursion is gradient descent in weight space, to rounding.",
    measured=3.1e-15,
    low=None,
    high=None,
    demand=None,
    kind: Kind = "claim",
    method="exact",
    formula=r"\eta\lambda_0 < 4",
    source=MAP,
):
    low, high = (measured if low is None else low), (measured if high is None else high)
    demand = Demand(high=1e-12) if demand is None else demand
    finding = Finding(measured, low, high, demand, verdict(low, high, demand), method)
    expected = Verdict.REFUTED if kind == "printed" else Verdict.SUPPORTED
    return Judged(statement, formula, source, kind, expected, finding)


def make_outcome(
    experiment="dynamics/catapult",
    title="The catapult: a step too large for a linear model is survived by a quadratic one.",
    formula=r"u' = (1 - v + u + w)^2\, u, \qquad v' = v + \frac{u}{m}(v - 4)",
    judged=None,
    figure=FIGURE,
    config=None,
    **fields,
):
    return Outcome(
        experiment=experiment,
        title=title,
        formula=formula,
        preset=fields.pop("preset", "default"),
        config={"width": 512, "ratios": [1.0, 3.0, 5.0]} if config is None else config,
        judged=tuple(_judged() if judged is None else judged),
        arrays={"loss": np.zeros(3)},
        figure=figure,
        seconds=fields.pop("seconds", 21.4),
        environment=fields.pop("environment", {"jax": "0.10.2", "python": "3.11.9"}),
        key=fields.pop("key", "3fa2c1d09b"),
        **fields,
    )


def _judged():
    """One of each kind, one of each verdict."""
    seeds = "sign interval over 10 seeds, 97.9 %"
    return [
        make_judged(),
        make_judged("The peak grows like m.", 0.98, 0.95, 1.01, Demand(0.9, 1.1), method=seeds),
        make_judged("A small step shows no peak.", 0.4, 0.3, 0.5, Demand(high=1.0), kind="control"),
        make_judged("P ≤ exp(-δ²μ/3) for δ > 1.", 1.3, demand=Demand(high=1.0), kind="printed"),
        make_judged("P ≤ exp(-δμ/3) for δ > 1.", 0.8, demand=Demand(high=1.0), kind="corrected"),
        make_judged("The flow ends at 2 − δ.", 2.0, 1.4, 2.6, Demand(1.5, 2.5), source=CHERNOFF),
    ]


@pytest.fixture
def judge():
    """Makes a judged claim."""
    return make_judged


@pytest.fixture
def make():
    """Makes an outcome."""
    return make_outcome


@pytest.fixture
def outcome():
    return make_outcome()


@pytest.fixture
def hostile():
    """Everything that a page may choke on, in every field that holds text or numbers."""
    numbers = [
        make_judged(HOSTILE, math.nan, demand=Demand(high=1.0), formula=r"\frac{a", method=HOSTILE),
        make_judged("", math.inf, -math.inf, math.inf, Demand(), formula=r"\text{<script>x}"),
        make_judged("[bold red]big[/]", 1.7e308, demand=Demand(-1e308, 5e-324), formula="{{ 7 }}"),
        make_judged("\x1b[31mred\r\n", 1.000004, demand=Demand(high=1.0), formula="\x00"),
    ]
    return make_outcome(
        experiment=HOSTILE,
        title=HOSTILE,
        formula=r"\href{javascript:alert(1)}{x} \style{background:url(http://evil.example)}{y}",
        judged=numbers,
        figure=HOSTILE_FIGURE,
        config={HOSTILE: HOSTILE, "nan": math.nan, "empty": []},
        environment={HOSTILE: HOSTILE},
        preset=HOSTILE,
        key=HOSTILE,
        seconds=math.inf,
    )


@pytest.fixture
def unusual():
    """A claim outside its regime, one that is not reproduced, and an observation of the lab."""
    finding = Finding(
        math.nan, math.nan, math.nan, Demand(), Verdict.NOT_JUDGED, "needs width >= 1000"
    )
    return [
        replace(make_judged("It grows."), finding=finding, regime="width >= 1000"),
        replace(
            make_judged("It falls.", measured=1.0),
            expected=Verdict.REFUTED,
            why="Two layers, not four.",
            quote="the loss grows",
        ),
        replace(make_judged("It stays.", kind="found"), demand="lab: set on seeds 100 to 119"),
    ]
