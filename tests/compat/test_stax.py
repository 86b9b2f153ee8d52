"""Neural Tangents' names give Neural Tangents' kernels, network by network, every second one.

Oracle: its own kernels, stored in `tests/kernels/neural_tangents/values.npz`. The module that made
them writes every network in its names; here the same lines are run with ours.
"""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.compat import stax

FOLDER = Path(__file__).parents[1] / "kernels" / "neural_tangents"


def _maker():
    spec = importlib.util.spec_from_file_location("make_values", FOLDER / "make_values.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER = _maker()
STORED = np.load(FOLDER / "values.npz")
INPUTS = MAKER.inputs()
NAMES = [str(name) for name in STORED["names"] if "20 hidden" not in name][::2]
ITSELF = np.pad(np.eye(3, dtype=bool), ((0, 0), (0, 2)))  # an input with itself


@pytest.fixture(scope="module")
def networks():
    return MAKER.cases(stax, jax)


@pytest.mark.parametrize("name", NAMES)
def test_networks_in_its_names_have_its_kernels(name, networks):
    """To rounding; of an input with itself its own angles err by 1e-8, or are NaN."""
    kind, layers = networks[name]
    with jax.enable_x64(True):
        x, graphs = (jnp.asarray(INPUTS[each]) for each in (kind, "graphs"))
        ours = MAKER.kernels(layers, x, graphs if "graph" in name else None, stax)
    theirs = STORED["float64"][list(STORED["names"]).index(name)]
    different = ~ITSELF & np.isfinite(theirs)
    assert np.isfinite(ours).all()
    np.testing.assert_allclose(ours[different], theirs[different], rtol=1e-9)
    close = np.isfinite(theirs)
    np.testing.assert_allclose(ours[close], theirs[close], rtol=2e-9)
