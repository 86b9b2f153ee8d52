"""Networks, finite networks and predictions in Neural Tangents' names give its numbers.

Oracle: its own numbers, stored in `values.npz`; `make_values.py` made them, by the very lines that
are run here with `theorylab.compat`.
"""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

import theorylab.compat as nt

FOLDER = Path(__file__).parent


def _maker():
    spec = importlib.util.spec_from_file_location("make_compat_values", FOLDER / "make_values.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER = _maker()
STORED = np.load(FOLDER / "values.npz")
# Solved there by an ODE solver to about 1e-8.
INTEGRATED = {f"predict, {name}" for name in ("flow", "momentum", "momentum, resumed")}


@pytest.fixture(scope="module")
def calls():
    with jax.enable_x64(True):
        return MAKER.values(nt)


@pytest.mark.parametrize("name", sorted(STORED))
def test_what_is_computed_in_its_names_is_what_it_computes(name, calls):
    """To nine digits; numbers that are 0 up to rounding, as a variance at a sample, to 1e-12."""
    with jax.enable_x64(True):
        ours = MAKER.flat(calls[name]())
    theirs = STORED[name]
    rounding = 1e-12 * np.abs(theirs).max()
    np.testing.assert_allclose(ours, theirs, 1e-6 if name in INTEGRATED else 1e-9, rounding)


def test_every_result_is_compared(calls):
    assert set(calls) == set(STORED)
