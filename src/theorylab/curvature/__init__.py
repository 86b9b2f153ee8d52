"""Curvature of a loss or of a network: Hessians and their kin as operators, and their spectra.

No matrix is ever stored; an operator says what it does to a vector of the parameters' shape. All of
`theorylab.numerics` that takes an operator takes these: trace, density, certified eigenpairs.
"""

from theorylab.numerics import certified_eigenpairs as certified_eigenpairs
from theorylab.numerics import spectral_density as spectral_density
from theorylab.numerics import trace as trace

from .ball import Ball as Ball
from .ball import hessian_in_ball as hessian_in_ball
from .fisher import empirical_fisher as empirical_fisher
from .fisher import monte_carlo_fisher as monte_carlo_fisher
from .gaussian_series import Bound as Bound
from .gaussian_series import columns_bound as columns_bound
from .gaussian_series import form_bound as form_bound
from .gaussian_series import image_bound as image_bound
from .gaussian_series import series_bound as series_bound
from .gaussian_series import series_variance as series_variance
from .gaussian_series import worst_move as worst_move
from .graph_blocks import GraphBlocks as GraphBlocks
from .graph_blocks import dependence as dependence
from .graph_blocks import dependence_bound as dependence_bound
from .graph_blocks import graph_blocks as graph_blocks
from .graph_blocks import read_lengths as read_lengths
from .graph_norms import GraphNorms as GraphNorms
from .graph_norms import graph_norms as graph_norms
from .graph_series import graph_series as graph_series
from .norm import SpectralNorm as SpectralNorm
from .norm import spectral_norm as spectral_norm
from .operators import Jacobian as Jacobian
from .operators import block as block
from .operators import gauss_newton as gauss_newton
from .operators import hessian as hessian
from .operators import in_batches as in_batches
from .operators import jacobian as jacobian
from .operators import output_hessian as output_hessian
from .operators import preconditioned as preconditioned
from .sharpness import Sharpness as Sharpness
from .sharpness import sharpness as sharpness
from .tensor_norm import TensorNorm as TensorNorm
from .tensor_norm import tensor_norm as tensor_norm
from .tensor_norm import two_layer_tensor_norm as two_layer_tensor_norm
from .two_layer_norm import two_layer_norm as two_layer_norm
