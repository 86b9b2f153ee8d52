"""Every test of the lab has folders of its own."""

import pytest


@pytest.fixture(autouse=True)
def _own_folders(folders):
    pass
