"""As a user runs it: without the type checks that tests put in front of every function."""

import jaxtyping
import pytest


@pytest.fixture
def untyped():
    """Switch the run-time type checks off, to see the package's own errors."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
