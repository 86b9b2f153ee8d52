"""Names that a package imports only when they are asked for.

    if TYPE_CHECKING:  # what editors and type checkers see
        from .estimators import NTKRegressor as NTKRegressor

    _LATER = {"NTKRegressor": ".estimators"}
    __getattr__, __dir__ = lazy(__name__, _LATER)

So importing the package stays fast, whatever some of its names need.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    package: str, where: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the functions `__getattr__` and `__dir__` of a package.

    Args:
        package: Its `__name__`.
        where: The module that has a name, relative to the package. Modules of the package itself
            are found too, without being listed.
    """

    def find(name: str) -> Any:
        if name in where:
            return getattr(importlib.import_module(where[name], package), name)
        missing = AttributeError(f"module {package!r} has no attribute {name!r}")
        if name.startswith("_"):
            raise missing
        try:
            return importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise missing from None

    def names() -> list[str]:
        module = sys.modules[package]
        inner = [each.name for each in pkgutil.iter_modules(module.__path__)]
        return sorted({*vars(module), *where, *(name for name in inner if name[0] != "_")})

    module = sys.modules[package]  # what it imports itself is there already
    own = {"TYPE_CHECKING", "lazy"}
    public = {name for name in {*vars(module), *where} - own if not name.startswith("_")}
    vars(module).setdefault("__all__", sorted(public))  # so that `import *` finds the later ones
    return find, names
