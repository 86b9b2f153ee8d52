"""The infinite-width reading of an architecture: its NNGP and tangent kernel, in closed form.

A layer maps the covariance K of its inputs (NNGP) and their tangent kernel Θ, from K = xᵀx′/d and
Θ = 0 on. The same `Architecture` read by `theorylab.models.network` has these kernels as its widths
grow.

    needs     what a network needs to know of positions, read off before any number
    state     what is known between two layers
    weights, positions, layers, mixing, attention
              what every layer makes of it
    reading   a batch with itself, and with another
    tiles, workers
              large kernels, in tiles, by all cores and devices
    kernels, disk, sampled
              what is called from outside
"""

from .disk import StoredKernels as StoredKernels
from .disk import infinite_kernels_on_disk as infinite_kernels_on_disk
from .kernels import Kernels as Kernels
from .kernels import infinite_diagonal as infinite_diagonal
from .kernels import infinite_kernels as infinite_kernels
from .kernels import infinite_nngp as infinite_nngp
from .kernels import infinite_pairs as infinite_pairs
from .kernels import infinite_positions as infinite_positions
from .sampled import KernelEstimates as KernelEstimates
from .sampled import infinite_kernels_sampled as infinite_kernels_sampled
