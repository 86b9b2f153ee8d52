"""Conducting toy experiments whose outcome is known."""

import dataclasses
import re
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

from theorylab.claims.claim import Verdict
from theorylab.lab import Refused, RunFailed
from theorylab.lab.conduct import arrays_of, conduct, configure, judge, precision
from theorylab.progress import listening


@pytest.fixture
def coin(tree):
    return tree.load("toys/coin")


def test_an_outcome_says_what_was_run_and_found(coin):
    outcome = conduct(coin, coin.Config(num_throws=50), preset="smoke")
    heads = jax.random.bernoulli(jax.random.key(0), 0.5, (50,))
    assert (outcome.experiment, outcome.preset, outcome.stored) == ("toys/coin", "smoke", False)
    assert outcome.config["num_throws"] == 50
    assert outcome.config["sizes"] == [1, 2]
    np.testing.assert_array_equal(outcome.arrays["heads"], heads)
    assert outcome.arrays["bias"] == 0.5
    assert outcome.judged[0].finding.measured == pytest.approx(float(heads.mean()))
    assert [judged.kind for judged in outcome.judged] == ["claim", "control"]
    assert outcome.as_expected
    assert outcome.environment["precision"] == "float64"
    assert outcome.environment["jax"] == jax.__version__
    assert outcome.figure.startswith("<?xml")
    assert outcome.seconds > 0


def test_a_verdict_that_is_not_the_expected_one_is_a_surprise(coin, tree):
    outcome = conduct(coin, coin.Config(surprising=True))
    assert outcome.judged[0].finding.verdict == Verdict.REFUTED
    assert not outcome.as_expected
    dice = tree.load("toys/dice")  # a printed statement: refuted, as expected
    assert conduct(dice, dice.Config()).as_expected


def test_outside_its_regime_a_claim_is_not_judged_and_surprises_nobody(coin, tree):
    """The judge, which would refute, is not even asked."""
    refuted = conduct(coin, coin.Config(surprising=True)).judged[0]
    details = {"regime": "num_throws >= 10**6", "quote": "a coin is fair"}
    claim = dataclasses.replace(coin.CLAIMS[0], **details)
    outside = judge(tree.entry("toys/coin"), claim, None, coin.Config(surprising=True))
    assert refuted.finding.verdict == Verdict.REFUTED
    assert outside.finding.verdict == Verdict.NOT_JUDGED
    assert outside.finding.method == "needs num_throws >= 10**6"
    assert outside.as_expected
    assert outside.quote == "a coin is fair"


def test_the_precision_is_the_experiments_own_and_ends_with_it(coin, tree):
    assert conduct(coin, coin.Config()).arrays["heads"].dtype == np.float64
    dice = tree.load("toys/dice")
    assert conduct(dice, dice.Config()).arrays["points"].dtype == np.float32
    assert jnp.zeros(1).dtype == jnp.float64  # as the tests have it


def test_float32_products_keep_all_their_digits():
    with precision("float32"):
        assert jax.config.jax_default_matmul_precision == "highest"  # pyright: ignore
        assert jnp.zeros(1).dtype == jnp.float32


def test_two_runs_give_the_same_bytes(coin):
    first, second = (conduct(coin, coin.Config()) for _ in range(2))
    assert first.figure == second.figure
    assert "date" not in first.figure.lower()
    assert first.key == second.key
    for name, array in first.arrays.items():
        assert array.tobytes() == second.arrays[name].tobytes()


def test_the_users_matplotlib_settings_do_not_matter(coin):
    plain = conduct(coin, coin.Config()).figure
    with matplotlib.rc_context({"lines.linewidth": 9.0, "font.size": 31.0}):
        assert conduct(coin, coin.Config()).figure == plain


def test_a_run_that_fails_is_named_in_one_line(coin):
    message = "toys/coin failed: RuntimeError: the coin is lost"
    with pytest.raises(RunFailed, match=message) as caught:
        conduct(coin, coin.Config(breaks="run"))
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("breaks", "method"),
    [
        ("judge", r"the judge failed: ZeroDivisionError: nobody can tell \(coin\.py:\d+\)"),
        ("finding", "the judge failed: TypeError: a judge must return a Finding, got str."),
    ],
)
def test_a_judge_that_fails_leaves_its_claim_inconclusive_and_loses_nothing(coin, breaks, method):
    outcome, whole = (conduct(coin, coin.Config(breaks=each)) for each in (breaks, "nothing"))
    broken, other = outcome.judged
    assert broken.finding.verdict == Verdict.INCONCLUSIVE
    assert re.fullmatch(method, broken.finding.method)
    assert not outcome.as_expected
    assert other == whole.judged[1]
    np.testing.assert_array_equal(outcome.arrays["heads"], whole.arrays["heads"])
    assert outcome.figure == whole.figure


def test_a_figure_that_fails_loses_nothing_and_is_no_success(coin):
    outcome, whole = (conduct(coin, coin.Config(breaks=each)) for each in ("plot", "nothing"))
    message = r"the figure failed: ValueError: no paper \(coin\.py:\d+\)"
    assert re.fullmatch(message, outcome.failure)
    assert (outcome.figure, outcome.as_expected) == ("", False)
    assert outcome.judged == whole.judged
    assert (whole.failure, whole.as_expected) == ("", True)


def test_a_config_that_does_not_fit_into_memory_is_refused_before_it_runs(coin, monkeypatch):
    module = sys.modules[conduct.__module__]
    monkeypatch.setattr(module, "available_memory", lambda: 100_000)
    assert conduct(coin, coin.Config(num_throws=1000)).as_expected
    message = "toys/coin must fit into the 100 kB of memory that are free, got .* about 112 kB"
    with pytest.raises(Refused, match=message):
        conduct(coin, coin.Config(num_throws=1400, breaks="run"))


def test_a_value_outside_its_domain_is_refused(coin, tree):
    entry = tree.entry("toys/coin")
    with pytest.raises(Refused, match=r"toys/coin: bias must be in \[0, 1\], got 2.0"):
        configure(entry, coin, {"bias": 2.0})
    assert dataclasses.asdict(configure(entry, coin, {"bias": 0.25}))["bias"] == 0.25


def test_progress_is_heard(coin):
    heard = []
    with listening(lambda what, done: heard.append((what, done))):
        conduct(coin, coin.Config())
    assert heard[:2] == [("throwing", 0.0), ("counting", 0.5)]


def test_results_may_be_nested_but_hold_numbers_only():
    class Inner(NamedTuple):
        slope: float

    class Outer(NamedTuple):
        fit: Inner
        loss: jax.Array
        label: str

    arrays = arrays_of(Outer(Inner(2.0), jnp.ones(3), "η"))
    assert list(arrays) == ["fit.slope", "loss", "label"]
    assert isinstance(arrays["loss"], np.ndarray)
    for wrong in (object(), jax.numpy.ones(2, jnp.bfloat16)):
        with pytest.raises(TypeError, match="label must be numbers or text to be stored"):
            arrays_of({"label": wrong})
