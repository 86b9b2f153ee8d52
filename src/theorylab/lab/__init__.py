"""The lab: runs experiments, judges their claims, and keeps what came out.

    name, fields ─► run ─► conduct(experiment, config) ─► Outcome ─► Store

What is in the store already is read without JAX.
"""

from .failure import Refused as Refused
from .failure import RunFailed as RunFailed
from .outcome import Judged as Judged
from .outcome import Outcome as Outcome
from .store import Store as Store
