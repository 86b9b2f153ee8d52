"""Kernels of networks: what outputs, or gradients, at two inputs have in common.

Architecture ─► infinite_kernels: NNGP and tangent kernel at infinite width, in closed form
apply, params ─► ntk: the tangent kernel at finite width, of any network
"""

from .distance import alignment as alignment
from .distance import relative_frobenius as relative_frobenius
from .distance import relative_spectral as relative_spectral
from .dual import Dual as Dual
from .dual import dual as dual
from .dual import quadrature_dual as quadrature_dual
from .dual import quadrature_error as quadrature_error
from .empirical import ntk as ntk
from .empirical import ntk_full as ntk_full
from .empirical import ntk_vector_product as ntk_vector_product
from .infinite import Kernels as Kernels
from .infinite import infinite_kernels as infinite_kernels
