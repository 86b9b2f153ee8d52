import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.applications import small_data as experiment

TINY = experiment.Config(
    sizes=(4, 6), num_test=20, num_splits=2, width=4, num_steps=2, learning_rates=(0.01,)
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    worse = smoke._replace(kernel=smoke.network - 0.02)
    assert verdict("With at most 640 examples", worse) == Verdict.REFUTED
    assert verdict("With the largest training sets", worse) == Verdict.REFUTED
    signs = np.where(np.arange(len(smoke.kernel)) % 2, 0.2, -0.2)[:, None]
    assert verdict("vary alike", smoke._replace(kernel=smoke.kernel + signs)) == Verdict.REFUTED
    calm = smoke._replace(kernel=0.5 * smoke.kernel)
    assert verdict("vary less", calm) == Verdict.SUPPORTED
    assert verdict("at chance", smoke._replace(shuffled=smoke.kernel)) == Verdict.REFUTED


def test_kernel_regression_is_that_of_scikit_learn():
    """Oracle: sklearn's kernel ridge regression on the same split."""
    from sklearn.kernel_ridge import KernelRidge

    key = jax.random.key(0)
    features = jax.random.normal(jax.random.key(1), (30, 5))
    kernel = features @ features.T + jnp.eye(30)
    labels = jax.random.randint(jax.random.key(2), (30,), 0, 10)
    found, _ = experiment._by_kernel(kernel, labels, 12, 10, key)
    train, test = map(np.asarray, experiment._split(key, 30, 12, 10))
    assert not set(train) & set(test)
    gram, across = np.asarray(kernel)[np.ix_(train, train)], np.asarray(kernel)[np.ix_(test, train)]
    ridge = KernelRidge(alpha=experiment.RIDGE * np.trace(gram) / 12, kernel="precomputed")
    ridge.fit(gram, np.eye(10)[np.asarray(labels)[train]] - 0.1)
    expected = np.mean(ridge.predict(across).argmax(axis=1) == np.asarray(labels)[test])
    assert float(found) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("sizes", (20, 10), r"sizes must grow, got \(20, 10\)"),
        ("sizes", (), "sizes must be whole numbers, one or more"),
        ("num_test", 1797, "at most 1797 together, got 1803"),
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("learning_rates", (0.0,), "learning_rates must be finite numbers, one or more"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
