"""Kernels of networks: what outputs, or gradients, at two inputs have in common.

Architecture ─► infinite_kernels: NNGP and tangent kernel at infinite width, in closed form
apply, params ─► ntk: the tangent kernel at finite width, of any network
init, apply ─► sampled_kernels: means over random networks, with their errors
kernels ─► prediction: outputs at any time of training, posteriors, ensembles, learning curves
kernels ─► solvers, estimators: kernel ridge regression, for scikit-learn too
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

from . import contractions as contractions
from . import dot_product as dot_product
from . import fourier_features as fourier_features
from . import gated_patches as gated_patches
from . import threshold_kernel as threshold_kernel
from . import two_layer as two_layer
from . import zonal as zonal
from .attention import attention_nngp as attention_nngp
from .attention import head_kernels as head_kernels
from .attention import mixture_kurtosis as mixture_kurtosis
from .attention import random_logits as random_logits
from .distance import alignment as alignment
from .distance import relative_frobenius as relative_frobenius
from .distance import relative_spectral as relative_spectral
from .dual import Dual as Dual
from .dual import dual as dual
from .dual import quadrature_dual as quadrature_dual
from .dual import quadrature_error as quadrature_error
from .estimate import Estimate as Estimate
from .finite import Costs as Costs
from .finite import label_alignment as label_alignment
from .finite import nngp as nngp
from .finite import ntk as ntk
from .finite import ntk_costs as ntk_costs
from .finite import ntk_diagonal as ntk_diagonal
from .finite import ntk_eigenpairs as ntk_eigenpairs
from .finite import ntk_full as ntk_full
from .finite import ntk_moments as ntk_moments
from .finite import ntk_of_axes as ntk_of_axes
from .finite import ntk_per_output as ntk_per_output
from .finite import ntk_per_parameter as ntk_per_parameter
from .finite import ntk_vector_product as ntk_vector_product
from .infinite import KernelEstimates as KernelEstimates
from .infinite import Kernels as Kernels
from .infinite import StoredKernels as StoredKernels
from .infinite import infinite_diagonal as infinite_diagonal
from .infinite import infinite_kernels as infinite_kernels
from .infinite import infinite_kernels_on_disk as infinite_kernels_on_disk
from .infinite import infinite_kernels_sampled as infinite_kernels_sampled
from .infinite import infinite_nngp as infinite_nngp
from .infinite import infinite_pairs as infinite_pairs
from .infinite import infinite_positions as infinite_positions
from .label_aware import hybrid_kernel as hybrid_kernel
from .label_aware import label_kernel as label_kernel
from .label_aware import target_alignment as target_alignment
from .label_directions import LabelDirections as LabelDirections
from .label_directions import label_directions as label_directions
from .label_directions import shuffled_alignments as shuffled_alignments
from .linearity import TaylorErrors as TaylorErrors
from .linearity import taylor_errors as taylor_errors
from .prediction import Descent as Descent
from .prediction import Flow as Flow
from .prediction import HeavyBall as HeavyBall
from .prediction import Nesterov as Nesterov
from .prediction import Prior as Prior
from .prediction import Spectrum as Spectrum
from .prediction import coefficients as coefficients
from .prediction import ensemble_moments as ensemble_moments
from .prediction import estimated_spectrum as estimated_spectrum
from .prediction import fitted_outputs as fitted_outputs
from .prediction import kernel_modes as kernel_modes
from .prediction import last_layer_moments as last_layer_moments
from .prediction import learning_curve as learning_curve
from .prediction import linearized_params as linearized_params
from .prediction import log_evidence as log_evidence
from .prediction import posterior as posterior
from .prediction import predict_ensemble as predict_ensemble
from .prediction import predicted_outputs as predicted_outputs
from .prediction import weight_distance as weight_distance
from .relinearized import WorkerSamples as WorkerSamples
from .relinearized import linear_step as linear_step
from .relinearized import relinearized_flow as relinearized_flow
from .sampled import SampledKernels as SampledKernels
from .sampled import sampled_kernels as sampled_kernels
from .solvers import cholesky_solve as cholesky_solve
from .solvers import conjugate_gradients as conjugate_gradients
from .solvers import nystrom_solve as nystrom_solve
from .tangent_regression import TangentFit as TangentFit
from .tangent_regression import tangent_regression as tangent_regression

if TYPE_CHECKING:
    from .estimators import NNGPRegressor as NNGPRegressor
    from .estimators import NTKClassifier as NTKClassifier
    from .estimators import NTKRegressor as NTKRegressor
    from .hierarchy import corrected_kernel as corrected_kernel
    from .hierarchy import tangent_hierarchy as tangent_hierarchy
    from .hierarchy import truncated_flow as truncated_flow
    from .prediction.losses import loss_coefficients as loss_coefficients
    from .prediction.steps import largest_learning_rate as largest_learning_rate
    from .prediction.steps import training_steps as training_steps
    from .prediction.steps import training_time as training_time

_LATER = {
    "NNGPRegressor": ".estimators",
    "NTKClassifier": ".estimators",
    "NTKRegressor": ".estimators",
    "corrected_kernel": ".hierarchy",
    "tangent_hierarchy": ".hierarchy",
    "truncated_flow": ".hierarchy",
    "loss_coefficients": ".prediction.losses",
    "largest_learning_rate": ".prediction.steps",
    "training_steps": ".prediction.steps",
    "training_time": ".prediction.steps",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
