"""The experiment on the drift of tangent kernels: verdicts, what is not so, bad configs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.finite import drift as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A drift that is the same at all widths, one with slope −1/2, a loss that stays."""
    flat = smoke._replace(drift=np.repeat(smoke.drift[:, :1], smoke.drift.shape[1], axis=1))
    assert verdict("moves by O(1/√m)", flat) == Verdict.REFUTED
    assert verdict("the wider the network", flat) != Verdict.SUPPORTED
    other = smoke._replace(kept=smoke.num_edges - smoke.kept)
    assert verdict("seven in ten stay", other) == Verdict.REFUTED
    widths = np.asarray(experiment.PRESETS["smoke"].widths)
    root = smoke._replace(drift=flat.drift * widths[None, :, None] ** -0.5)
    assert verdict("follows Θ(1/√m)", root) == Verdict.SUPPORTED
    one = smoke.last_loss.copy()
    one[0, 0] = 0.002
    assert verdict("converges", smoke._replace(last_loss=one)) == Verdict.REFUTED
    stays = smoke.drift.copy()
    stays[:, -1] = stays[:, -2]
    assert verdict("at every next width", smoke._replace(drift=stays)) != Verdict.SUPPORTED
    assert verdict("converges", smoke._replace(last_loss=smoke.last_loss + 1)) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="drop must be a finite number, between 0 and 1"):
        experiment.Config(drop=1.0)
    with pytest.raises(ValueError, match="widths must be three or more"):
        experiment.Config(widths=(8, 16))
    with pytest.raises(ValueError, match="two widths must be at least 64"):
        experiment.Config(widths=(4, 8, 16))


def test_images_can_be_learned():
    """Oracle: norms √d and both labels; digits come with the install."""
    x, y = experiment._points(jax.random.key(0), experiment.Config(inputs="images"))
    assert x.shape == (10, 64)
    np.testing.assert_allclose(jnp.linalg.norm(x, axis=1), 8.0, rtol=1e-6)
    assert set(np.asarray(y).ravel().tolist()) == {-1.0, 1.0}
