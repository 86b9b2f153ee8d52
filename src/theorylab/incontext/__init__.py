"""Attention that learns in context: tasks in a prompt, and what solves them without training.

prompts            examples of a task and a query: linear regression, parity of two coordinates
linear_attention   linear self-attention: full, one matrix, of low rank, several heads
linear_risk        its exact risk, and the best matrix of every rank
pretraining        trained on prompts
tasks              sequences of examples of linear, sparse, tree-like or two-layer functions
baselines          regressions on the examples so far, and Bayes' error
trained            a transformer that learns to learn such functions in context
parity_heads       heads that learn parity: by binary codes, and four for any dimension
designs            random designs and their condition numbers
looped             a looped transformer that is gradient descent, and bounds of its error
decision_lists     labels by the first token of a list that is there
list_transformer   a transformer of one layer that learns them, its gradients in closed form
list_theorems      when it does: constants of the theorems, and their steps checked
"""

from .baselines import bayes_errors as bayes_errors
from .baselines import predict_descent as predict_descent
from .baselines import predict_lasso as predict_lasso
from .baselines import predict_least_squares as predict_least_squares
from .baselines import predict_ridge as predict_ridge
from .decision_lists import DecisionLists as DecisionLists
from .decision_lists import all_sets as all_sets
from .decision_lists import circulant_lists as circulant_lists
from .decision_lists import determining as determining
from .decision_lists import list_labels as list_labels
from .decision_lists import one_step_values as one_step_values
from .decision_lists import places as places
from .decision_lists import random_lists as random_lists
from .decision_lists import random_sets as random_sets
from .decision_lists import set_delta as set_delta
from .decision_lists import triple_delta as triple_delta
from .designs import condition_number as condition_number
from .designs import gaussian_condition as gaussian_condition
from .designs import gaussian_moment as gaussian_moment
from .linear_attention import Factors as Factors
from .linear_attention import LinearAttention as LinearAttention
from .linear_attention import attend as attend
from .linear_attention import embedded as embedded
from .linear_attention import head_predictions as head_predictions
from .linear_attention import initial_factors as initial_factors
from .linear_attention import predictions as predictions
from .linear_attention import prompt_matrix as prompt_matrix
from .linear_attention import summaries as summaries
from .linear_risk import approximate_rank_risk as approximate_rank_risk
from .linear_risk import gamma as gamma
from .linear_risk import optimal_loss as optimal_loss
from .linear_risk import optimal_matrix as optimal_matrix
from .linear_risk import population_loss as population_loss
from .linear_risk import rank_gap as rank_gap
from .linear_risk import rank_risk as rank_risk
from .linear_risk import shrinkage as shrinkage
from .linear_risk import task_risk as task_risk
from .list_theorems import Audit as Audit
from .list_theorems import attention_scale as attention_scale
from .list_theorems import attention_steps as attention_steps
from .list_theorems import audit as audit
from .list_theorems import initial_loss as initial_loss
from .list_theorems import joint_scale as joint_scale
from .list_theorems import joint_steps as joint_steps
from .list_transformer import Descent as Descent
from .list_transformer import ListFormer as ListFormer
from .list_transformer import Sets as Sets
from .list_transformer import aligned_values as aligned_values
from .list_transformer import attention_sharpness as attention_sharpness
from .list_transformer import attention_weights as attention_weights
from .list_transformer import descend_at_sharpness as descend_at_sharpness
from .list_transformer import list_descent as list_descent
from .list_transformer import list_gradient as list_gradient
from .list_transformer import list_logits as list_logits
from .list_transformer import list_loss as list_loss
from .list_transformer import list_margins as list_margins
from .list_transformer import list_sharpness as list_sharpness
from .list_transformer import perfect as perfect
from .list_transformer import set_gradients as set_gradients
from .looped import Looped as Looped
from .looped import LoopWeights as LoopWeights
from .looped import descent_weights as descent_weights
from .looped import exponential_bound as exponential_bound
from .looped import exponential_examples as exponential_examples
from .looped import last_row_mask as last_row_mask
from .looped import least_squares_descent as least_squares_descent
from .looped import log_squared_errors as log_squared_errors
from .looped import loop as loop
from .looped import loop_prompt as loop_prompt
from .looped import masked_attention as masked_attention
from .looped import printed_log_bound as printed_log_bound
from .looped import tight_log_bound as tight_log_bound
from .parity_heads import ParityHeads as ParityHeads
from .parity_heads import all_pairs as all_pairs
from .parity_heads import binary_heads as binary_heads
from .parity_heads import differing_digits as differing_digits
from .parity_heads import four_heads as four_heads
from .parity_heads import noise_projection as noise_projection
from .parity_heads import parity_loss as parity_loss
from .parity_heads import parity_margins as parity_margins
from .parity_heads import parity_outputs as parity_outputs
from .parity_heads import preferred as preferred
from .parity_heads import rare_limit as rare_limit
from .parity_heads import squared_norm as squared_norm
from .parity_heads import task_law as task_law
from .pretraining import Pretraining as Pretraining
from .pretraining import minimised as minimised
from .pretraining import pretrain as pretrain
from .pretraining import principal_angle as principal_angle
from .prompts import Prompts as Prompts
from .prompts import covariance_root as covariance_root
from .prompts import parity_prompts as parity_prompts
from .prompts import parity_tasks as parity_tasks
from .prompts import regression_prompts as regression_prompts
from .prompts import rooted_prompts as rooted_prompts
from .tasks import FunctionLaw as FunctionLaw
from .tasks import Sequences as Sequences
from .tasks import draw_sequences as draw_sequences
from .trained import InContextLearner as InContextLearner
from .trained import InContextRecipe as InContextRecipe
from .trained import in_context_model as in_context_model
from .trained import in_context_predictions as in_context_predictions
from .trained import interleaved as interleaved
from .trained import learn_in_context as learn_in_context
from .trained import learn_prompts as learn_prompts
from .trained import prompt_model as prompt_model
from .trained import prompt_predictions as prompt_predictions
