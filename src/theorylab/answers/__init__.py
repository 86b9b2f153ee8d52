"""What library functions answer: frozen records that can be shown, drawn, tabulated and saved.

Importing this loads no JAX; an `Answer` does.
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

if TYPE_CHECKING:
    from .base import Answer as Answer
    from .base import fixed as fixed
    from .files import load as load

_LATER = {"Answer": ".base", "fixed": ".base", "load": ".files"}

__getattr__, __dir__ = lazy(__name__, _LATER)
