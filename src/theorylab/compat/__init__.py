"""Neural Tangents' names, arguments and conventions, computed by theorylab.

    from theorylab.compat import stax
    import theorylab.compat as nt

A notebook written for Neural Tangents runs with these two imports in the place of its own; the page
on coming from Neural Tangents says what differs.
"""

from . import predict as predict
from . import stax as stax
from .empirical import NtkImplementation as NtkImplementation
from .empirical import empirical_kernel_fn as empirical_kernel_fn
from .empirical import empirical_nngp_fn as empirical_nngp_fn
from .empirical import empirical_ntk_fn as empirical_ntk_fn
from .empirical import empirical_ntk_vp_fn as empirical_ntk_vp_fn
from .empirical import linearize as linearize
from .empirical import taylor_expand as taylor_expand
from .kernel import Kernel as Kernel
from .sampling import batch as batch
from .sampling import monte_carlo_kernel_fn as monte_carlo_kernel_fn
