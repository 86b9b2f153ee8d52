"""The folders and what is kept in the cache."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from theorylab.folders import cache_folder, store_folder
from theorylab.lab.compilation import kept_compilations
from theorylab.lab.timings import expected_seconds, remember


def test_folders_are_the_users_own_unless_the_environment_says_otherwise(monkeypatch, tmp_path):
    assert (store_folder(), cache_folder()) == (tmp_path / "store", tmp_path / "cache")
    monkeypatch.delenv("THEORYLAB_STORE")
    monkeypatch.delenv("THEORYLAB_CACHE")
    assert store_folder().parent.name == cache_folder().name == "theorylab"
    assert store_folder() != cache_folder()


def test_durations_are_remembered(tmp_path):
    assert expected_seconds(tmp_path, "toys/coin", "smoke") is None
    remember(tmp_path, "toys/coin", "smoke", 1.234)
    remember(tmp_path, "toys/coin", "paper", 99.0)
    remember(tmp_path, "toys/coin", "smoke", 2.345)
    assert expected_seconds(tmp_path, "toys/coin", "smoke") == pytest.approx(2.345, abs=0.01)
    assert expected_seconds(tmp_path, "toys/coin", "paper") == 99.0
    assert [path.name for path in tmp_path.iterdir()] == ["timings.json"]


@pytest.mark.parametrize("text", ["", "[1]", '{"toys/coin smoke": "long"}', "{"])
def test_garbled_durations_are_none_and_get_replaced(tmp_path, text):
    (tmp_path / "timings.json").write_text(text)
    assert expected_seconds(tmp_path, "toys/coin", "smoke") is None
    remember(tmp_path, "toys/coin", "smoke", 3.0)
    assert expected_seconds(tmp_path, "toys/coin", "smoke") == 3.0


def test_durations_that_cannot_be_kept_are_no_reason_to_fail(tmp_path):
    remember(tmp_path / "nowhere", "toys/coin", "smoke", 3.0)
    assert expected_seconds(tmp_path / "nowhere", "toys/coin", "smoke") is None


def compute(shift: float) -> None:
    """Compile and run something small that JAX has not in memory."""
    jax.clear_caches()
    jax.jit(lambda x: x * 3 + shift)(jnp.ones(3)).block_until_ready()


def test_programs_are_kept_inside_the_block_only(tmp_path):
    with kept_compilations(tmp_path):
        compute(1.0)
    kept = set((tmp_path / "compiled").iterdir())
    assert kept
    compute(2.0)
    assert set((tmp_path / "compiled").iterdir()) == kept


@pytest.mark.filterwarnings("default")
def test_half_a_program_is_no_error_and_is_dropped(tmp_path, recwarn):
    with kept_compilations(tmp_path):
        compute(1.0)
    for file in (tmp_path / "compiled").glob("*-cache"):
        file.write_bytes(file.read_bytes()[:20])
    with kept_compilations(tmp_path):
        compute(1.0)
    assert not Path(tmp_path / "compiled").exists()
    with kept_compilations(tmp_path):
        compute(1.0)
    assert list((tmp_path / "compiled").glob("*-cache"))
