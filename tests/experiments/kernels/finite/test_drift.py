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


def test_wide_networks_are_made_and_run_alone_with_their_own_graphs_and_keys(monkeypatch):
    """Oracle: graphs and keys where all networks are one block."""

    def told(run, graphs, keys):
        sizes = np.array([graph.num_weights for graph in graphs], float)
        return np.stack([sizes, np.asarray(jax.random.key_data(keys))[:, 1]], axis=1), sizes

    config = experiment.Config(widths=(8, 64, 80), num_steps=4, num_records=2, num_seeds=2)
    monkeypatch.setattr(experiment, "dag_ensemble", told)
    together = experiment.run(config)
    assert len(experiment._blocks(config)) == 1
    monkeypatch.setattr(experiment, "TOGETHER", 2 * 8 * (8 + 20) + 100)
    cells = [(0, 0), (1, 0)], [(0, 1)], [(1, 1)], [(0, 2)], [(1, 2)]
    assert experiment._blocks(config) == list(cells)
    found = experiment.run(config)
    assert len(np.unique(found.last_loss)) == len(np.unique(found.drift[..., 1])) == 6
    np.testing.assert_array_equal(found.drift, together.drift)
    np.testing.assert_array_equal(found.last_loss, together.last_loss)
