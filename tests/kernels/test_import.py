"""Importing the kernels takes little: what only some functions need is loaded when they run."""

import subprocess
import sys


def test_statistics_and_estimators_are_not_loaded_before_they_are_used():
    """Oracle: `sys.modules` of a fresh interpreter."""
    heavy = ["scipy.stats", "scipy.optimize", "sklearn", "matplotlib", "diffrax", "pandas"]
    code = f"import sys, theorylab.kernels; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_imported_later_is_seen_by_completion():
    """Oracle: the names that the README calls."""
    import theorylab
    from theorylab import features, kernels
    from theorylab.kernels import prediction

    assert {"kernels", "features", "curvature", "typing"} <= set(dir(theorylab))
    assert "_later" not in " ".join(dir(theorylab))
    assert {"RecursiveFeatureRegressor", "agop"} <= set(dir(features))
    assert {"NTKRegressor", "training_time", "ntk"} <= set(dir(kernels))
    assert {"training_time", "posterior"} <= set(dir(prediction))
    assert all(hasattr(kernels, name) for name in dir(kernels))


def test_a_star_imports_what_is_imported_later_too():
    names: dict = {}
    exec("from theorylab.kernels import *", names)
    assert {"ntk", "NTKRegressor", "training_time", "loss_coefficients"} <= set(names)
    assert {"largest_learning_rate", "truncated_flow"} <= set(names)
    assert not {"lazy", "TYPE_CHECKING", "_LATER"} & set(names)
