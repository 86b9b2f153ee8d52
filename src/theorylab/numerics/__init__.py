"""How sure a measurement is, what spectrum an operator has, what a Gaussian expectation is.

Intervals, tests and fits run on the host (numpy, scipy), on what was measured; spectra and
quadrature run in JAX and can be jitted, mapped and put inside a scan.
"""

from .certificates import certified_eigenpairs as certified_eigenpairs
from .certificates import needed_checks as needed_checks
from .density import marchenko_pastur as marchenko_pastur
from .density import smoothed_density as smoothed_density
from .density import spectral_cdf as spectral_cdf
from .density import spectral_density as spectral_density
from .density import spectral_distance as spectral_distance
from .fits import PowerLaw as PowerLaw
from .fits import power_law as power_law
from .fits import power_law_exponents as power_law_exponents
from .hypothesis import HypothesisTest as HypothesisTest
from .hypothesis import jonckheere as jonckheere
from .hypothesis import ordered_share as ordered_share
from .hypothesis import permutation_test as permutation_test
from .hypothesis import sign_test as sign_test
from .intervals import Interval as Interval
from .intervals import bootstrap_bca as bootstrap_bca
from .intervals import bootstrap_percentile as bootstrap_percentile
from .intervals import clopper_pearson as clopper_pearson
from .intervals import hall as hall
from .intervals import sign_coverage as sign_coverage
from .intervals import sign_interval as sign_interval
from .intervals import student as student
from .quadrature import expectation as expectation
from .quadrature import expectation2 as expectation2
from .quadrature import gauss_hermite as gauss_hermite
from .ranks import rank_correlations as rank_correlations
from .ranks import spearman as spearman
from .ratios import mean_ratio as mean_ratio
from .ratios import norm_ratio as norm_ratio
from .sketch import SpectralSketch as SpectralSketch
from .spectra import eigenpairs as eigenpairs
from .spectra import extreme_eigenvalues as extreme_eigenvalues
from .spectra import lanczos as lanczos
from .spectra import power_iteration as power_iteration
from .spectra import top_eigenvalues as top_eigenvalues
from .trace import squared_norm as squared_norm
from .trace import trace as trace
from .truncated_gaussian import conditional_moments as conditional_moments
from .truncated_gaussian import excess_moments as excess_moments
from .truncated_gaussian import mills_ratio as mills_ratio
from .two_samples import newcombe as newcombe
from .two_samples import welch as welch
from .two_samples import wilson as wilson
