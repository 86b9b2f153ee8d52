"""Why what was learned on a sample holds beyond it: tail bounds, and where they are theorems."""

from . import exact_tails as exact_tails
from . import tail_bounds as tail_bounds
from . import tangent_bounds as tangent_bounds
