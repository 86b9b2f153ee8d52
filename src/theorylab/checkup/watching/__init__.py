"""What `Watch` is made of: when to measure, what was found so far, and where it is written.

    schedule ─► when a measurement may run, so that its share of the time stays within a budget
    pursuit ──► the top eigenvalue from where it was last time, in a few products
    entries ──► what was found, as curves
    table ────► the entries in a file of CSV that survives a crash
    events ───► the entries in a file that TensorBoard reads
    facts ────► what may be told of a training run besides its network and data

`rounds` puts schedule and measures together, `journal` what writes.
"""

from .entries import Curve as Curve
from .entries import Entry as Entry
from .entries import curve_of as curve_of
from .events import EventFile as EventFile
from .facts import Facts as Facts
from .journal import Failure as Failure
from .journal import Journal as Journal
from .pursuit import Pursuit as Pursuit
from .rounds import Rounds as Rounds
from .schedule import Schedule as Schedule
from .table import Table as Table
