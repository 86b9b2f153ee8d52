"""The lab: runs experiments, judges their claims, and keeps what came out.

experiment + config ─► conduct ─► Outcome ─► Store
"""

from .conduct import conduct as conduct
from .failure import Refused as Refused
from .failure import RunFailed as RunFailed
from .outcome import Judged as Judged
from .outcome import Outcome as Outcome
from .store import Store as Store
