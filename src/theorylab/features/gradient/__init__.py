"""Gradient features: what the first step of gradient descent finds in the data.

network            the two-layer ReLU network with a symmetric start, and its online training
gradient_features  the simplified gradient of any data law, the directions it finds, how probably
radius             how long inputs of a mixture are, which the bounds want to know
reduction          neurons on a mixture in a few numbers, whatever the dimension
optimum            the least loss on given features or directions, with a certificate
baselines          the same network's fixed features: random ones and tangents, by ridge regression
bound              the main bound, its requirements and which of them fail
subnetwork         nice neurons after one step, and the good subnetwork of some of them
one_step           one step of everything, then only the output layer, and its bounds
cases              constants and explicit networks of clusters, XOR and half-spaces
parity_cases       constants of parities, of blocks and of fair signs
measured           the same constants from data and from features found in it
block_parity       parities of blocks: an exact network, the neurons that see one block
multi_index        one step on polynomials of a few directions: Hessian times weights
index_bound        what the theorem on such polynomials asks for, with unit constants
uniform_parity     sparse parity of fair signs: the exact first gradient, samples for its signs
"""

from .baselines import RIDGES as RIDGES
from .baselines import distinct_network as distinct_network
from .baselines import kernel_ridge_error as kernel_ridge_error
from .baselines import ridge_error as ridge_error
from .baselines import streamed_ridge_error as streamed_ridge_error
from .baselines import tangent_kernel as tangent_kernel
from .block_parity import background_deviation as background_deviation
from .block_parity import block_parity_network as block_parity_network
from .block_parity import fixed_feature_bound as fixed_feature_bound
from .block_parity import sure_neurons as sure_neurons
from .bound import Budget as Budget
from .bound import HyperParameters as HyperParameters
from .bound import MainBound as MainBound
from .bound import Requirement as Requirement
from .bound import Terms as Terms
from .bound import TheoremConstants as TheoremConstants
from .bound import hyper_parameters as hyper_parameters
from .bound import main_bound as main_bound
from .bound import needed_width as needed_width
from .bound import requirements as requirements
from .bound import untuned_terms as untuned_terms
from .cases import TheoremCase as TheoremCase
from .cases import cluster_case as cluster_case
from .cases import cluster_detectors as cluster_detectors
from .cases import cluster_error_bound as cluster_error_bound
from .cases import detector_loss_bound as detector_loss_bound
from .cases import detector_threshold as detector_threshold
from .cases import printed_detector_loss_bound as printed_detector_loss_bound
from .cases import separable_case as separable_case
from .cases import separable_network as separable_network
from .cases import xor_case as xor_case
from .gradient_features import Feature as Feature
from .gradient_features import FoundDirections as FoundDirections
from .gradient_features import SampledGradients as SampledGradients
from .gradient_features import bernstein_tail as bernstein_tail
from .gradient_features import blind_directions as blind_directions
from .gradient_features import box_members as box_members
from .gradient_features import cone_members as cone_members
from .gradient_features import dataset_gradients as dataset_gradients
from .gradient_features import finite_gradients as finite_gradients
from .gradient_features import frontier as frontier
from .gradient_features import gradient_features as gradient_features
from .gradient_features import mixture_gradients as mixture_gradients
from .gradient_features import neurons_at_once as neurons_at_once
from .gradient_features import sampled_gradients as sampled_gradients
from .index_bound import IndexNeeds as IndexNeeds
from .index_bound import condition_number as condition_number
from .index_bound import index_complexity as index_complexity
from .index_bound import index_needs as index_needs
from .index_bound import index_rate as index_rate
from .measured import measured_constants as measured_constants
from .measured import sample_constants as sample_constants
from .multi_index import Regressed as Regressed
from .multi_index import descend_square_loss as descend_square_loss
from .multi_index import index_start as index_start
from .multi_index import index_step as index_step
from .multi_index import limit_share as limit_share
from .multi_index import quadratic_gradients as quadratic_gradients
from .multi_index import regress_out as regress_out
from .multi_index import span_share as span_share
from .network import DataSampler as DataSampler
from .network import FiniteLaw as FiniteLaw
from .network import LossName as LossName
from .network import OnlineRecipe as OnlineRecipe
from .network import OnlineSchedule as OnlineSchedule
from .network import ReluNetwork as ReluNetwork
from .network import empirical_law as empirical_law
from .network import error_rate as error_rate
from .network import forgetting_schedule as forgetting_schedule
from .network import gradient_step as gradient_step
from .network import learn_online as learn_online
from .network import loss_slope as loss_slope
from .network import margin_loss as margin_loss
from .network import risk as risk
from .network import symmetric_network as symmetric_network
from .network import symmetrized as symmetrized
from .network import train as train
from .network import train_exactly as train_exactly
from .one_step import Smoothness as Smoothness
from .one_step import descend_outputs as descend_outputs
from .one_step import descent_bound as descent_bound
from .one_step import gap_bound as gap_bound
from .one_step import output_smoothness as output_smoothness
from .one_step import rademacher_bound as rademacher_bound
from .optimum import Optimum as Optimum
from .optimum import direction_optimum as direction_optimum
from .optimum import frozen_optimum as frozen_optimum
from .optimum import offered_neurons as offered_neurons
from .optimum import projected as projected
from .parity_cases import block_parity_case as block_parity_case
from .parity_cases import parity_error_bound as parity_error_bound
from .parity_cases import uniform_parity_case as uniform_parity_case
from .radius import longer_probability as longer_probability
from .radius import sample_radius as sample_radius
from .reduction import reduced_mixture as reduced_mixture
from .reduction import reduced_weights as reduced_weights
from .subnetwork import Subnetwork as Subnetwork
from .subnetwork import best_floor as best_floor
from .subnetwork import blockwise_risk as blockwise_risk
from .subnetwork import drawn_subnetwork as drawn_subnetwork
from .subnetwork import good_subnetwork as good_subnetwork
from .subnetwork import nice_neurons as nice_neurons
from .subnetwork import restricted as restricted
from .subnetwork import subnetwork_bound as subnetwork_bound
from .uniform_parity import aligned as aligned
from .uniform_parity import aligned_cosine as aligned_cosine
from .uniform_parity import gradient_length as gradient_length
from .uniform_parity import limit_samples as limit_samples
from .uniform_parity import majority_coefficient as majority_coefficient
from .uniform_parity import needed_samples as needed_samples
from .uniform_parity import parity_gradients as parity_gradients
from .uniform_parity import parity_rate as parity_rate
from .uniform_parity import parity_start as parity_start
from .uniform_parity import parity_step as parity_step
