"""What is learned: synthetic laws with their exact moments, and small real images.

law of inputs, teacher ─► `Dataset`: x (n, ...), y (n, k), its law and its source in words.
"""

from .backgrounds import dataset_on_background as dataset_on_background
from .backgrounds import on_background as on_background
from .dataset import Dataset as Dataset
from .dictionary import CountLaw as CountLaw
from .dictionary import dictionary_data as dictionary_data
from .dictionary import independent_patterns as independent_patterns
from .dictionary import parity_mixture as parity_mixture
from .downloads import IMAGE_SETS as IMAGE_SETS
from .downloads import image_set as image_set
from .images import digits as digits
from .images import mnist5k as mnist5k
from .inputs import Gaussian as Gaussian
from .inputs import Hypercube as Hypercube
from .inputs import InputLaw as InputLaw
from .inputs import Sphere as Sphere
from .inputs import gaussian as gaussian
from .inputs import hypercube as hypercube
from .inputs import sphere as sphere
from .mixtures import GaussianMixture as GaussianMixture
from .mixtures import gaussian_mixture as gaussian_mixture
from .mixtures import hypercube_mixture as hypercube_mixture
from .mixtures import xor_mixture as xor_mixture
from .modular import all_sums as all_sums
from .modular import modular_addition as modular_addition
from .modular import split_sums as split_sums
from .multi_index import MultiIndex as MultiIndex
from .multi_index import quadratic_index as quadratic_index
from .parities import BlockParity as BlockParity
from .parities import SparseParity as SparseParity
from .patches import PatchLaw as PatchLaw
from .patches import patch_law as patch_law
from .patches import signal_among_noise as signal_among_noise
from .polynomials import low_rank_polynomial as low_rank_polynomial
from .polynomials import polynomial_agop as polynomial_agop
from .tables import TABLES as TABLES
from .tables import table as table
from .targets import chebyshev as chebyshev
from .targets import linear_teacher as linear_teacher
from .targets import network_teacher as network_teacher
from .targets import parity as parity
