"""Local signal adaptivity: how a convolution finds the one patch that matters among noisy ones.

network      the filter with a soft threshold, and Algorithm 3.1 on fresh batches
projected    the same algorithm in three numbers, exact in law
population   descent on the true risk, without samples
accuracy     how often a filter errs, exactly, and the best threshold
lemmas       the steps of the proof, as numbers that can be checked
batches      what chance does: the start, and gradients from samples
"""

from .accuracy import best_threshold as best_threshold
from .accuracy import error_rate as error_rate
from .accuracy import error_rates as error_rates
from .accuracy import lower_tail as lower_tail
from .accuracy import mean_shortfall as mean_shortfall
from .batches import Spread as Spread
from .batches import gradient_spread as gradient_spread
from .batches import needed_batch as needed_batch
from .batches import start_bound as start_bound
from .batches import start_misses as start_misses
from .lemmas import ScheduleConstants as ScheduleConstants
from .lemmas import absolute_ratio as absolute_ratio
from .lemmas import first_sound_size as first_sound_size
from .lemmas import kept_noise as kept_noise
from .lemmas import largest_signal as largest_signal
from .lemmas import largest_threshold as largest_threshold
from .lemmas import noise_bound as noise_bound
from .lemmas import probability_ratio as probability_ratio
from .lemmas import ratio_with_error as ratio_with_error
from .lemmas import relative_threshold as relative_threshold
from .lemmas import schedule as schedule
from .lemmas import union_bound as union_bound
from .lemmas import variance_ratio as variance_ratio
from .lemmas import within as within
from .network import Filter as Filter
from .network import FilterRates as FilterRates
from .network import descend_on_batch as descend_on_batch
from .network import learn_filter as learn_filter
from .network import outputs as outputs
from .network import small_filter as small_filter
from .network import soft_threshold as soft_threshold
from .population import Grid as Grid
from .population import ManyLaws as ManyLaws
from .population import PopulationRisk as PopulationRisk
from .population import descend_each as descend_each
from .population import descend_population as descend_population
from .population import population_step as population_step
from .population import risk as risk
from .projected import FilterState as FilterState
from .projected import learn_projected as learn_projected
from .projected import noise_sums as noise_sums
from .projected import projected_step as projected_step
from .projected import signal_slopes as signal_slopes
from .projected import small_state as small_state
from .projected import state_of as state_of
