"""Every judge, on 2,000 made-up experiments whose truth is known.

The truth lies just outside what is demanded (then *supported* is false) or just inside (then
*refuted* is false). Each of the two may happen in at most 5 % of the experiments, for every law of
the noise and every number of seeds; the observed rate has its own error, so what must not exceed
5 % is the lower end of its one-sided 95 % interval. Run with `-s` to see the rates.
"""

from collections.abc import Callable, Iterator

import jaxtyping
import numpy as np
import pytest
from scipy import stats

from theorylab.claims import (
    Finding,
    Verdict,
    exponent_between,
    mean_between,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
    probability_at_least,
    probability_at_most,
    trend,
)

EXPERIMENTS = 2000
TINY = 1e-9
WIDE = 1e300

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

# Laws of noise with median 0: light and heavy tails, skewed, with ties, half of it an atom.
NOISE: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "laplace": lambda rng, shape: rng.laplace(size=shape),
    "student 2": lambda rng, shape: rng.standard_t(2, shape),
    "cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "lognormal": lambda rng, shape: rng.lognormal(size=shape) - 1,
    "ties": lambda rng, shape: rng.integers(-1, 2, shape).astype(float),
    "atom": lambda rng, shape: np.maximum(rng.standard_normal(shape), 0.0),
}

# Laws with mean 0. A Cauchy has none, but a centre of symmetry; the lognormals are the hard ones.
CENTRED: dict[str, Draw] = {
    "normal": NOISE["normal"],
    "student 2": NOISE["student 2"],
    "cauchy": NOISE["cauchy"],
    "exponential": lambda rng, shape: rng.standard_exponential(shape) - 1,
    "lognormal": lambda rng, shape: rng.lognormal(size=shape) - np.exp(0.5),
    "lognormal 1.5": lambda rng, shape: rng.lognormal(sigma=1.5, size=shape) - np.exp(1.125),
    "ties": NOISE["ties"],
    "rare": lambda rng, shape: (rng.random(shape) < 0.05) - 0.05,
}


@pytest.fixture(autouse=True, scope="module")
def unchecked() -> Iterator[None]:
    """Shapes are checked in the other tests; here it would take most of the time."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def experiments(law: Draw, *shape: int) -> np.ndarray:
    return law(np.random.default_rng(20), (EXPERIMENTS, *shape))


def assert_calibrated(what: str, outside: list[Finding], inside: list[Finding]) -> None:
    """Truth outside is seldom supported, and truth inside seldom refuted."""
    for false, findings in [(Verdict.SUPPORTED, outside), (Verdict.REFUTED, inside)]:
        count = sum(finding.verdict == false for finding in findings)
        rate = stats.binomtest(count, EXPERIMENTS, alternative="greater").proportion_ci(0.95)
        print(f"{what}: falsely {false} in {100 * count / EXPERIMENTS:.1f} %")
        assert rate.low <= 0.05, f"{what}: falsely {false} in {count} of {EXPERIMENTS}."


@pytest.mark.parametrize("law", NOISE)
@pytest.mark.parametrize("seeds", [6, 30])
def test_median_at_most(law, seeds):
    samples = experiments(NOISE[law], seeds)
    outside = [median_at_most(x, -TINY) for x in samples]
    inside = [median_at_most(x, 0.0) for x in samples]
    assert_calibrated(f"median at most, {law}, {seeds} seeds", outside, inside)


@pytest.mark.parametrize("law", NOISE)
def test_median_at_least(law):
    samples = experiments(NOISE[law], 10)
    outside = [median_at_least(x, TINY) for x in samples]
    inside = [median_at_least(x, 0.0) for x in samples]
    assert_calibrated(f"median at least, {law}, 10 seeds", outside, inside)


@pytest.mark.parametrize("law", NOISE)
def test_median_between(law):
    samples = experiments(NOISE[law], 10)
    outside = [median_between(x, TINY, WIDE) for x in samples]
    inside = [median_between(x, -WIDE, 0.0) for x in samples]
    assert_calibrated(f"median between, {law}, 10 seeds", outside, inside)


@pytest.mark.parametrize("law", CENTRED)
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_mean_between(law, side):
    samples = side * experiments(CENTRED[law], 30)
    outside = [mean_between(x, TINY, WIDE) for x in samples]
    inside = [mean_between(x, -TINY, WIDE) for x in samples]
    assert_calibrated(f"mean between, {law} × {side:g}, 30 seeds", outside, inside)


GRIDS = {"geometric": 2.0 ** np.arange(4, 10), "uneven": np.array([1.0, 2, 3, 4, 8, 64, 4096])}


@pytest.mark.parametrize("law", NOISE)
@pytest.mark.parametrize(("grid", "seeds"), [("geometric", 6), ("uneven", 30)])
def test_exponent_between(law, grid, seeds):
    """Multiplicative noise, heavy-tailed and skewed in the logarithm, the same at every x."""
    x = GRIDS[grid]
    noise = np.clip(0.2 * experiments(NOISE[law], seeds, len(x)), -300, 300)  # else exp overflows
    curves = x**-0.5 * np.exp(noise)
    outside = [exponent_between(x, y, -0.5 + TINY, WIDE) for y in curves]
    inside = [exponent_between(x, y, -0.5 - TINY, WIDE) for y in curves]
    assert_calibrated(f"exponent between, {law}, {seeds} seeds, {grid} x", outside, inside)


@pytest.mark.parametrize("law", NOISE)
@pytest.mark.parametrize("seeds", [6, 30])
def test_ordered(law, seeds):
    """Pairs with a common part that is larger than their difference; 0 is not an ordering."""
    differences = experiments(NOISE[law], seeds)
    common = 4.0 * np.arange(seeds)
    outside = [ordered(common, common + x) for x in differences]
    inside = [ordered(common, common + (x + TINY)) for x in differences]
    assert_calibrated(f"ordered, {law}, {seeds} seeds", outside, inside)


@pytest.mark.parametrize("law", NOISE)
@pytest.mark.parametrize(("levels", "seeds"), [(2, 6), (3, 10), (6, 3)])
def test_trend_with_equal_noise(law, levels, seeds):
    """No trend is outside; as near to it as one likes there is a trend, and the same numbers."""
    findings = [trend(x) for x in experiments(NOISE[law], levels, seeds)]
    assert_calibrated(f"trend, {law}, {levels} levels of {seeds} seeds", findings, findings)


@pytest.mark.parametrize("law", ["normal", "cauchy"])
@pytest.mark.parametrize("increasing", [True, False])
@pytest.mark.parametrize(("levels", "seeds"), [(3, 10), (6, 3), (10, 6)])
def test_trend_with_widening_noise(law, increasing, levels, seeds):
    """Each level ten times as noisy as the last, around the same centre: still no trend."""
    scale = 10.0 ** np.arange(levels)
    groups = experiments(NOISE[law], levels, seeds) * scale[:, None]
    findings = [trend(x, increasing) for x in groups]
    what = f"trend, widening {law}, {levels} levels of {seeds} seeds"
    assert_calibrated(what, findings, findings)


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("trials", [10, 100, 1000])
def test_probability_at_most_and_at_least(probability, trials):
    counts = np.random.default_rng(20).binomial(trials, probability, EXPERIMENTS).tolist()
    below, above = probability - TINY, probability + TINY
    for name, judge, out, within in [
        ("most", probability_at_most, below, above),
        ("least", probability_at_least, above, below),
    ]:
        outside = [judge(count, trials, out) for count in counts]
        inside = [judge(count, trials, within) for count in counts]
        what = f"probability at {name} {probability:g}, {trials} trials"
        assert_calibrated(what, outside, inside)
