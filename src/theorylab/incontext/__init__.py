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

Shown here is what most need; the modules have the rest.
"""

from .baselines import bayes_errors as bayes_errors
from .baselines import predict_descent as predict_descent
from .baselines import predict_lasso as predict_lasso
from .baselines import predict_least_squares as predict_least_squares
from .baselines import predict_ridge as predict_ridge
from .decision_lists import DecisionLists as DecisionLists
from .decision_lists import list_labels as list_labels
from .decision_lists import random_lists as random_lists
from .designs import condition_number as condition_number
from .designs import gaussian_condition as gaussian_condition
from .linear_attention import LinearAttention as LinearAttention
from .linear_attention import attend as attend
from .linear_attention import head_predictions as head_predictions
from .linear_attention import predictions as predictions
from .linear_risk import optimal_loss as optimal_loss
from .linear_risk import optimal_matrix as optimal_matrix
from .linear_risk import population_loss as population_loss
from .linear_risk import rank_risk as rank_risk
from .linear_risk import task_risk as task_risk
from .list_theorems import audit as audit
from .list_transformer import ListTransformer as ListTransformer
from .list_transformer import list_descent as list_descent
from .looped import LoopWeights as LoopWeights
from .looped import descent_weights as descent_weights
from .looped import loop as loop
from .looped import loop_prompt as loop_prompt
from .parity_heads import ParityHeads as ParityHeads
from .parity_heads import binary_heads as binary_heads
from .parity_heads import four_heads as four_heads
from .parity_heads import parity_margins as parity_margins
from .pretraining import Pretraining as Pretraining
from .pretraining import pretrain as pretrain
from .prompts import Prompts as Prompts
from .prompts import parity_prompts as parity_prompts
from .prompts import regression_prompts as regression_prompts
from .tasks import FunctionLaw as FunctionLaw
from .tasks import draw_sequences as draw_sequences
from .trained import InContextRecipe as InContextRecipe
from .trained import in_context_model as in_context_model
from .trained import in_context_predictions as in_context_predictions
from .trained import learn_in_context as learn_in_context
