"""theorylab: a laboratory for the theory of deep learning.

Every room of the house is an attribute, opened when it is first entered:

    import theorylab
    theorylab.kernels.ntk(apply, params, x)

Importing `theorylab` itself loads neither JAX nor NumPy, so the command line answers at once.
"""

import importlib
import importlib.metadata
import pkgutil
from types import ModuleType

__version__ = importlib.metadata.version("theorylab")


def __getattr__(name: str) -> ModuleType:
    """Open a room: `theorylab.kernels` imports `theorylab.kernels`."""
    if name.startswith("_"):
        raise AttributeError(f"theorylab has no attribute {name!r}.")
    try:
        return importlib.import_module(f"theorylab.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"theorylab.{name}":
            raise
        raise AttributeError(f"theorylab has no room {name!r}.") from None


def __dir__() -> list[str]:
    """The rooms too, which are not imported yet."""
    rooms = [module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_"]
    return sorted({*globals(), *rooms})
