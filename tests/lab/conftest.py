"""Every test of the lab has folders of its own; some share an outcome that nobody ran."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # for `made_up`


@pytest.fixture(autouse=True)
def _own_folders(folders):
    pass
