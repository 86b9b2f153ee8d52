"""Compiled programs are kept in the cache folder, so that the second run starts fast."""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

_EVERY_PROGRAM = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@contextmanager
def kept_compilations(cache: Path) -> Iterator[None]:
    """Let JAX keep every program that it compiles inside the block, however small.

    A process killed while writing leaves half a program behind. JAX then warns, compiles anew and
    never replaces it; so whenever it warns, all programs are dropped when the block ends.
    """
    folder = cache / "compiled"
    settings = {"jax_compilation_cache_dir": str(folder)} | _EVERY_PROGRAM
    before = {name: getattr(jax.config, name) for name in settings}
    _set(settings)
    show, damaged = warnings.showwarning, []

    def notice(message, category, filename, lineno, file=None, line=None):
        if "persistent compilation cache entry" in str(message):
            damaged.append(message)
        else:
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = notice
    try:
        yield
    finally:
        warnings.showwarning = show
        _set(before)
        if damaged:
            shutil.rmtree(folder, ignore_errors=True)


def _set(settings: dict[str, str | float | int | None]) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # it reads its settings only once
