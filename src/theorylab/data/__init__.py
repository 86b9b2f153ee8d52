"""What is learned: synthetic laws with their exact moments, and small real images.

law of inputs, teacher ─► `Dataset`: x (n, ...), y (n, k), its law and its source in words.
"""

from .cache import cache_folder as cache_folder
from .contrast import image_like as image_like
from .contrast import image_like_covariance as image_like_covariance
from .dataset import Dataset as Dataset
from .images import digits as digits
from .images import mnist5k as mnist5k
from .inputs import Gaussian as Gaussian
from .inputs import Hypercube as Hypercube
from .inputs import InputLaw as InputLaw
from .inputs import Sphere as Sphere
from .inputs import chebyshev_points as chebyshev_points
from .inputs import gaussian as gaussian
from .inputs import hypercube as hypercube
from .inputs import sphere as sphere
from .modular import Sums as Sums
from .modular import all_sums as all_sums
from .modular import character_moment as character_moment
from .modular import modular_addition as modular_addition
from .modular import num_sums as num_sums
from .modular import numbered_sums as numbered_sums
from .modular import sampled_sums as sampled_sums
from .modular import split_sums as split_sums
from .polynomials import Moments as Moments
from .polynomials import Rank as Rank
from .polynomials import low_rank_polynomial as low_rank_polynomial
from .polynomials import polynomial_agop as polynomial_agop
from .polynomials import polynomial_moments as polynomial_moments
from .polynomials import polynomial_teacher as polynomial_teacher
from .tables import TABLES as TABLES
from .tables import table as table
from .targets import chebyshev as chebyshev
from .targets import linear_teacher as linear_teacher
from .targets import network_teacher as network_teacher
from .targets import parity as parity
