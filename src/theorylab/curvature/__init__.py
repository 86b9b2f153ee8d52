"""Curvature of a loss or of a network: Hessians and their kin as operators, and their spectra.

No matrix is ever stored; an operator says what it does to a vector of the parameters' shape. All of
`theorylab.numerics` that takes an operator takes these: trace, density, certified eigenpairs.
"""

from theorylab.numerics import certified_eigenpairs as certified_eigenpairs
from theorylab.numerics import spectral_density as spectral_density
from theorylab.numerics import trace as trace

from .ball import Ball as Ball
from .ball import hessian_in_ball as hessian_in_ball
from .dag_blocks import DagBlocks as DagBlocks
from .dag_blocks import dag_blocks as dag_blocks
from .dag_blocks import dependence as dependence
from .dag_blocks import dependence_bound as dependence_bound
from .dag_blocks import read_lengths as read_lengths
from .dag_norms import DagNorms as DagNorms
from .dag_norms import dag_norms as dag_norms
from .dag_series import dag_series as dag_series
from .fisher import empirical_fisher as empirical_fisher
from .fisher import monte_carlo_fisher as monte_carlo_fisher
from .gaussian_series import TailBound as TailBound
from .gaussian_series import columns_bound as columns_bound
from .gaussian_series import form_bound as form_bound
from .gaussian_series import image_bound as image_bound
from .gaussian_series import series_bound as series_bound
from .gaussian_series import series_variance as series_variance
from .gaussian_series import worst_move as worst_move
from .loss_hessian import loss_hessian as loss_hessian
from .loss_hessian import loss_sharpness as loss_sharpness
from .norm import SpectralNorm as SpectralNorm
from .norm import spectral_norm as spectral_norm
from .operators import JacobianProducts as JacobianProducts
from .operators import batched_operator as batched_operator
from .operators import block as block
from .operators import gauss_newton as gauss_newton
from .operators import hessian as hessian
from .operators import jacobian as jacobian
from .operators import output_hessian as output_hessian
from .operators import preconditioned as preconditioned
from .second_moments import preconditioner as preconditioner
from .sharpness import Sharpness as Sharpness
from .sharpness import sharpness as sharpness
from .tensor_norm import TensorNorm as TensorNorm
from .tensor_norm import tensor_norm as tensor_norm
from .tensor_norm import two_layer_tensor_norm as two_layer_tensor_norm
from .two_layer_norm import two_layer_norm as two_layer_norm
