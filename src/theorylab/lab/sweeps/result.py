"""A sweep as its user has it: a table of what was measured, to be plotted, fitted, saved.

sweep.to_pandas()                                one row for each repetition of each setting
sweep.plot(x="ratio", y="final_loss", hue="width")
sweep.fit(x="width", y="peak")                   a power law, with the interval of its exponent
sweep.failures                                   the settings that failed, with their configs
"""

import csv
import html
import importlib.util
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from theorylab.answers.table import as_frame
from theorylab.lab.failure import Refused
from theorylab.lab.requests import nearest
from theorylab.lab.writing import write_whole
from theorylab.numerics.fits import PowerLaw

from .drive import Failure
from .harvest import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

SHOWN = 20  # rows in a notebook


@dataclass(frozen=True, eq=False, repr=False)  # a table is long
class Sweep:
    """Many settings of one experiment, and what came of them."""

    name: str
    experiment: str
    swept: tuple[str, ...]  # the fields that vary
    rows: tuple[Row, ...]  # in the order of the plan
    failures: tuple[Failure, ...]
    claims: dict[str, str]  # "claim_1" ─► its statement
    num_settings: int
    num_read: int = 0  # settings that were in the store
    num_run: int = 0
    num_lost: int = 0  # deaths of workers that were running a setting

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def as_expected(self) -> bool:
        """Whether no setting failed, and every verdict is the expected one."""
        return not self.failures and all(row["as_expected"] for row in self.rows)

    def column(self, name: str) -> np.ndarray:
        """A column of the table.

        Raises:
            ValueError: There is none of this name.
        """
        if name not in self.columns:
            near = nearest(name, self.columns) or f" It has {', '.join(self.numbers)}."
            raise Refused(f"the sweep {self.name} has no column {name!r}.{near}")
        return np.array([row.get(name, np.nan) for row in self.rows])

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that can be plotted and fitted: what varies, and what was measured."""
        return tuple(name for name in self.columns if self._is_number(name))

    def _is_number(self, name: str) -> bool:
        if name in self.swept:
            return True
        fixed = {"key", "as_expected", "repetition", *self._fixed}
        return name not in fixed and not name.endswith("_verdict")

    @property
    def _fixed(self) -> set[str]:
        """The columns of one value: fields that do not vary."""
        return {name for name in self.columns if len({row.get(name) for row in self.rows}) == 1}

    def to_pandas(self) -> "DataFrame":
        """The table, one row for each repetition of each setting."""
        return as_frame({name: self.column(name) for name in self.columns}, ("row",))

    def to_csv(self, path: str | Path) -> None:
        """Write the table as CSV; numbers with all their digits."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_whole(Path(path), text.getvalue().encode())

    def to_parquet(self, path: str | Path) -> None:
        """Write the table as Parquet.

        Raises:
            ValueError: pyarrow is not installed.
        """
        require_parquet()
        content = io.BytesIO()
        self.to_pandas().to_parquet(content, engine="pyarrow", index=False)
        write_whole(Path(path), content.getvalue())

    def fit(self, x: str, y: str, confidence: float = 0.95) -> PowerLaw:
        """Fit y = c xᵖ over all rows; gives p with its interval.

        Args:
            x: A field that varies.
            y: Another column.
            confidence: Of the interval.

        Raises:
            ValueError: There is no such column, or x is not positive with two values at least.
        """
        from .fits import fitted

        return fitted(self, x, y, confidence)

    def plot(self, x: str, y: str, hue: str | None = None) -> "Figure":
        """Draw y over x, a curve for each value of hue; or hue over the plane of two fields.

        Args:
            x: A column of numbers.
            y: What is drawn above it; if it is a field that varies too, the colours of a phase
                diagram show `hue`.
            hue: A column, whose values are the curves or the colours.

        Raises:
            ValueError: There is no such column, or it has no numbers.
        """
        from .figures import drawn

        return drawn(self, x, y, hue)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        over = " × ".join(f"{name} ({len(set(self.column(name)))})" for name in self._known)
        return (
            f"<Sweep {self.name} of {self.experiment} over {over or 'nothing'}:"
            f" {self.num_settings} settings, {len(self.rows)} rows{failed}>"
        )

    @property
    def _known(self) -> list[str]:
        return [name for name in self.swept if name in self.columns]

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows of what varies and what was measured."""
        names = [*self._known, *(name for name in self.numbers if name not in self.swept)][:12]
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
        rows = "".join(
            f"<tr>{''.join(f'<td>{_cell(row.get(name))}</td>' for name in names)}</tr>"
            for row in self.rows[:SHOWN]
        )
        more = len(self.rows) - SHOWN
        rest = f"<p>and {more} more rows</p>" if more > 0 else ""
        failed = "".join(
            f"<li>{html.escape(str(failure))}</li>" for failure in self.failures[:SHOWN]
        )
        lost = f"<p>failed:</p><ul>{failed}</ul>" if failed else ""
        style = "color: inherit; background: transparent"
        return (
            f"<p>{html.escape(repr(self))}</p>"
            f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
            f"{rest}{lost}"
        )


def require_parquet() -> None:
    """Refuse to write Parquet where pyarrow is missing, before anything is run."""
    if importlib.util.find_spec("pyarrow") is None:
        raise Refused(
            "a parquet file needs pyarrow, which is not installed: pip install pyarrow, or use csv."
        )


def statements(names: Sequence[str]) -> Mapping[str, str]:
    """The claims of an experiment by the names of their columns."""
    return {f"claim_{number}": statement for number, statement in enumerate(names, start=1)}


def _cell(value: Any) -> str:
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))
