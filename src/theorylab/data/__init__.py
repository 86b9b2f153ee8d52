"""What is learned: synthetic laws with their exact moments, and small real images.

law of inputs, teacher ─► `Dataset`: x (n, ...), y (n, k), its law and its source in words.
"""

from .cache import cache_folder as cache_folder
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
from .targets import chebyshev as chebyshev
from .targets import linear_teacher as linear_teacher
from .targets import network_teacher as network_teacher
from .targets import parity as parity
