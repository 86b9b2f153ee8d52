"""Where things are kept: outcomes in the user's data folder, what can be made anew in the cache.

The environment variables THEORYLAB_STORE and THEORYLAB_CACHE name other folders.
"""

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """Say where cached files are: $THEORYLAB_CACHE, or the user's cache folder."""
    chosen = os.environ.get("THEORYLAB_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("theorylab"))


def store_folder() -> Path:
    """Say where outcomes are kept: $THEORYLAB_STORE, or the user's data folder."""
    chosen = os.environ.get("THEORYLAB_STORE")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("theorylab")) / "outcomes"
