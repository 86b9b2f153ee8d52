"""Which version of theorylab this is."""

import importlib.metadata

__version__ = importlib.metadata.version("theorylab")
