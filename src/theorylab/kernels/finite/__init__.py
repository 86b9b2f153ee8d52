"""Kernels of finite networks: any `apply(params, x)`, entry by entry or as an operator.

A network's program is read (program, uses); the Jacobian of every parameter is kept in factors or
multiplied out (jacobian), as a count of operations decides (cost); blocks of inputs are compared
(contraction, blocks), or gradients pushed forward (products). What can be known without the matrix
is in spectrum.
"""

from .axes import nngp as nngp
from .axes import ntk_of_axes as ntk_of_axes
from .cost import Cost as Cost
from .cost import Costs as Costs
from .cost import NTKMethod as NTKMethod
from .empirical import ntk as ntk
from .empirical import ntk_costs as ntk_costs
from .empirical import ntk_full as ntk_full
from .empirical import ntk_per_output as ntk_per_output
from .empirical import ntk_per_parameter as ntk_per_parameter
from .empirical import ntk_vector_product as ntk_vector_product
from .spectrum import KernelMoments as KernelMoments
from .spectrum import label_alignment as label_alignment
from .spectrum import ntk_diagonal as ntk_diagonal
from .spectrum import ntk_eigenpairs as ntk_eigenpairs
from .spectrum import ntk_moments as ntk_moments
