"""Features that emerge from the structure of inputs in one or two steps of gradient descent.

network        two layers of truncated ReLUs with noise inside, in closed form
stages         training in three stages: emergence, improvement, classifier
good_network   a network written down by hand that is right about every label
meters         what gradients are made of, where weights point, what counting allows
audits         what the theory's lemmas say about a run, measured
bounds         the bound of the three stages, its requirements and which of them fail
lower_bounds   what fixed features cannot do, over all parities; their least hinge loss
queries        what statistical queries cannot find without structure
clusters       clusters of weights' directions, found by a rule
filters        filters of residual blocks, and the directions of their gradients
"""

from .audits import LemmaAudit as LemmaAudit
from .audits import audit as audit
from .audits import beyond_margin as beyond_margin
from .bounds import ClassifierSizes as ClassifierSizes
from .bounds import Drift as Drift
from .bounds import EmergenceBound as EmergenceBound
from .bounds import General as General
from .bounds import TheoremSizes as TheoremSizes
from .bounds import balancing_steps as balancing_steps
from .bounds import classifier_sizes as classifier_sizes
from .bounds import drift as drift
from .bounds import emergence_bound as emergence_bound
from .bounds import hinge_regret_margin as hinge_regret_margin
from .bounds import needed_pairs as needed_pairs
from .bounds import regret_margin as regret_margin
from .clusters import DirectionClusters as DirectionClusters
from .clusters import scrambled as scrambled
from .clusters import spherical_means as spherical_means
from .filters import Persistence as Persistence
from .filters import block_filters as block_filters
from .filters import nearest_filters as nearest_filters
from .filters import persistence as persistence
from .filters import scale_filters as scale_filters
from .filters import stacked as stacked
from .good_network import bump as bump
from .good_network import good_network as good_network
from .lower_bounds import HingeFit as HingeFit
from .lower_bounds import LowerBound as LowerBound
from .lower_bounds import best_hinge as best_hinge
from .lower_bounds import drawn_features as drawn_features
from .lower_bounds import feature_matrix as feature_matrix
from .lower_bounds import kernel_lower_bound as kernel_lower_bound
from .lower_bounds import largest_norm as largest_norm
from .lower_bounds import lower_bound as lower_bound
from .lower_bounds import mixture_chances as mixture_chances
from .lower_bounds import num_parities as num_parities
from .lower_bounds import parity_coefficients as parity_coefficients
from .lower_bounds import parity_rows as parity_rows
from .meters import GradientParts as GradientParts
from .meters import cosine_map as cosine_map
from .meters import cosines as cosines
from .meters import expected_largest_cosine as expected_largest_cosine
from .meters import gradient_parts as gradient_parts
from .meters import largest_cosines as largest_cosines
from .meters import normalized as normalized
from .meters import relevant_direction as relevant_direction
from .meters import sampling_floor as sampling_floor
from .meters import separation as separation
from .meters import silhouette as silhouette
from .meters import threshold_ceiling as threshold_ceiling
from .meters import weight_maps as weight_maps
from .network import Scales as Scales
from .network import TruncatedNeurons as TruncatedNeurons
from .network import first_half as first_half
from .network import opening as opening
from .network import outputs as outputs
from .network import preactivations as preactivations
from .network import smoothed_outputs as smoothed_outputs
from .network import smoothed_relu as smoothed_relu
from .network import start_scales as start_scales
from .network import truncated_relu as truncated_relu
from .network import unbiased_start as unbiased_start
from .queries import Answerer as Answerer
from .queries import Queries as Queries
from .queries import concept as concept
from .queries import distinguished as distinguished
from .queries import gradient_queries as gradient_queries
from .queries import largest_correlation as largest_correlation
from .queries import parity_found as parity_found
from .queries import printed_concept as printed_concept
from .queries import query_bound as query_bound
from .queries import sampling_oracle as sampling_oracle
from .queries import stubborn_oracle as stubborn_oracle
from .stages import Emergence as Emergence
from .stages import Stage as Stage
from .stages import classifier_rates as classifier_rates
from .stages import classify as classify
from .stages import emerge as emerge
from .stages import emergence_stages as emergence_stages
from .stages import gradients as gradients
from .stages import step as step
