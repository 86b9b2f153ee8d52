"""theorylab: a laboratory for the theory of deep learning.

Run an experiment, or compute with a network of your own, any `apply(params, x)`:

    import theorylab
    theorylab.run("dynamics/catapult", ratios=(1, 3))
    theorylab.ntk(apply, params, x)

The names that are used most are here; every room of the house is an attribute, opened when it is
first entered: `theorylab.kernels.posterior`. Importing `theorylab` itself loads neither JAX nor
NumPy, so the command line answers at once.
"""

from typing import TYPE_CHECKING

from .lazy import lazy
from .threads import ready_threads as ready_threads

if TYPE_CHECKING:
    from . import bias as bias
    from . import bridges as bridges
    from . import checkup as checkup
    from . import claims as claims
    from . import curvature as curvature
    from . import data as data
    from . import dynamics as dynamics
    from . import features as features
    from . import generalization as generalization
    from . import incontext as incontext
    from . import kernels as kernels
    from . import lab as lab
    from . import models as models
    from . import numerics as numerics
    from . import report as report
    from . import training as training
    from .checkup import Watch as Watch
    from .checkup import examine as examine
    from .curvature import gauss_newton as gauss_newton
    from .curvature import hessian as hessian
    from .curvature import output_hessian as output_hessian
    from .curvature import sharpness as sharpness
    from .curvature import spectral_norm as spectral_norm
    from .dynamics import critical_learning_rate as critical_learning_rate
    from .entrance import find as find
    from .entrance import run as run
    from .entrance import sweep as sweep
    from .features import agop as agop
    from .features import compare_features as compare_features
    from .kernels import infinite_kernels as infinite_kernels
    from .kernels import ntk as ntk
    from .kernels import predicted_outputs as predicted_outputs
    from .lab import Outcome as Outcome
    from .models import linearize as linearize
    from .models import mlp as mlp
    from .models import network as network
    from .version import __version__ as __version__

_LATER = {
    "__version__": ".version",
    "Outcome": ".lab",
    "Watch": ".checkup",
    "agop": ".features",
    "compare_features": ".features",
    "critical_learning_rate": ".dynamics",
    "gauss_newton": ".curvature",
    "examine": ".checkup",
    "find": ".entrance",
    "hessian": ".curvature",
    "infinite_kernels": ".kernels",
    "linearize": ".models",
    "mlp": ".models",
    "network": ".models",
    "ntk": ".kernels",
    "output_hessian": ".curvature",
    "predicted_outputs": ".kernels",
    "run": ".entrance",
    "sharpness": ".curvature",
    "spectral_norm": ".curvature",
    "sweep": ".entrance",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
