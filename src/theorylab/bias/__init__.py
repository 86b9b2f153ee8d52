"""What optimisation prefers when many solutions fit: the norm or potential that it minimises.

a network and its training ─► where it ends ═ the solution of least norm or potential
"""

from .diagonal_network import DiagonalFlow as DiagonalFlow
from .diagonal_network import DiagonalParams as DiagonalParams
from .diagonal_network import descended as descended
from .diagonal_network import diagonal_speed as diagonal_speed
from .diagonal_network import diagonal_weights as diagonal_weights
from .diagonal_network import follow as follow
from .diagonal_network import initial_params as initial_params
from .diagonal_network import top_curvature as top_curvature
from .interpolants import least_entropy as least_entropy
from .interpolants import least_l1 as least_l1
from .interpolants import least_l2 as least_l2
from .least_norm import nearest_interpolant as nearest_interpolant
from .least_norm import neumann_sum as neumann_sum
from .least_norm import outside_row_space as outside_row_space
from .least_norm import pseudoinverse as pseudoinverse
from .least_norm import sign_consistent as sign_consistent
from .mirror import hyperbolic_entropy as hyperbolic_entropy
from .mirror import inverse_mirror_map as inverse_mirror_map
from .mirror import mirror_map as mirror_map
from .mirror import mirror_speed as mirror_speed
from .mirror import mirror_velocity as mirror_velocity
