"""Networks of other frameworks as `apply(params, x)`: PyTorch, Flax, Equinox, plain functions.

    module ─► Bridged(apply, params, held)

`apply` is a pure function of JAX, `params` a tree of floating arrays, `held` what stays fixed:
buffers and running statistics. Networks are as in evaluation: dropout is off, and no input sees
another one. Every framework is imported only when a network of its own is bridged.
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

if TYPE_CHECKING:
    from .bridged import Bridged as Bridged
    from .equinox_modules import from_equinox as from_equinox
    from .flax_modules import from_flax as from_flax
    from .functions import from_function as from_function
    from .functions import from_huggingface as from_huggingface
    from .recognition import bridge as bridge
    from .torch_modules import from_torch as from_torch

_LATER = {
    "Bridged": ".bridged",
    "bridge": ".recognition",
    "from_equinox": ".equinox_modules",
    "from_flax": ".flax_modules",
    "from_function": ".functions",
    "from_huggingface": ".functions",
    "from_torch": ".torch_modules",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
