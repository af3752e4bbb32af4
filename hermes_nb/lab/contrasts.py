"""What a setting changes: paired differences with bootstrap confidence intervals and effect sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

MEASURES = ("completed", "score", "iterations", "total_tokens", "cost_usd", "seconds")
"""What is compared if nothing is asked for."""

RESAMPLES = 9_999
"""Bootstrap samples; scipy's default."""

LEVEL = 0.95
"""Of the confidence intervals."""

COLUMNS = (
    "measure", "value", "baseline", "pairs", "mean", "mean_baseline", "difference", "low", "high", "effect", "p_value",
)  # fmt: skip
"""`effect` is Cohen's d of the paired differences (their mean by their standard deviation); `p_value` is that of
Wilcoxon's signed-rank test, where scipy is installed."""


@dataclass(frozen=True)
class Contrast:
    """What a setting changes, measure by measure.

    Attributes:
        setting: The setting.
        frame: One row for each measure and value that is not the baseline; see `COLUMNS`. `low` and `high` bound the
            difference of the means.
    """

    setting: str
    frame: pd.DataFrame

    def __repr__(self) -> str:
        """The table in words."""
        return (
            f"{self.setting}: differences to the baseline, {LEVEL:.0%} intervals\n{self.frame.to_string(index=False)}"
        )

    def _repr_html_(self) -> str:
        table = self.frame.to_html(index=False, escape=True, float_format="{:.4g}".format)
        return f"<p>{escape(self.setting)}: differences to the baseline, {LEVEL:.0%} intervals</p>{table}"

    def plot(self, measure: str | None = None, *, ax: Axes | None = None) -> Axes:
        """The differences with their intervals; needs matplotlib.

        Args:
            measure: Which measure; the first one if left out.
            ax: Where to draw; a new picture if left out.
        """
        from hermes_nb.traces.plots.style import BLUE, INK, dressed, literal, new  # noqa: PLC0415  heavy, and an extra

        measure = measure or str(self.frame["measure"].iloc[0])
        rows = self.frame[self.frame["measure"] == measure]
        ax = dressed(new(7, 1 + 0.45 * len(rows)) if ax is None else ax, grid="x")
        middle = rows["difference"].to_numpy(float)
        errors = np.abs(rows[["low", "high"]].to_numpy(float).T - middle)
        ax.errorbar(middle, range(len(rows)), xerr=errors, fmt="o", capsize=4, color=BLUE)
        ax.set_yticks(range(len(rows)), [literal(f"{self.setting} = {value}") for value in rows["value"]])
        ax.axvline(0, linewidth=1, color=INK)
        ax.set_xlabel(literal(f"difference in {measure} to {self.setting} = {rows['baseline'].iloc[0]}"))
        ax.margins(y=0.3)
        return ax


def compare_setting(
    frame: pd.DataFrame, setting: str, columns: Sequence[str], measure: str | Sequence[str] | None, baseline: Any
) -> Contrast:
    """Compare the values of a setting over cases that are equal in all else; repeats are averaged first.

    Args:
        frame: A study's turns.
        setting: The column.
        columns: The columns that tell cases apart.
        measure: Columns to compare; `MEASURES` if None.
        baseline: The value that the others are compared with; the first one if None.

    Raises:
        ConfigurationError: There is no such setting, measure or baseline.
    """
    keys = [name for name in columns if name not in ("case_id", "repeat", "seed", setting)]
    where = frame.get(setting, pd.Series(dtype=object)).astype(object)
    where = where.where(where.notna(), "None")
    values = list(dict.fromkeys(where)) if setting in columns else []
    if len(values) < 2:  # noqa: PLR2004  nothing to compare
        msg = f"{setting!r} has {len(values)} values in this study; compare a setting that varies"
        raise ConfigurationError(msg)
    first = values[0] if baseline is None else baseline
    if first not in values:
        msg = f"{setting} is never {first!r} in this study; it is {', '.join(map(repr, values))}"
        raise ConfigurationError(msg)
    rows = []
    for name in _measures(frame, measure):
        numbers = frame[name].astype("Float64").astype(float)
        others = [frame[key].astype(str) for key in keys]
        table = numbers.groupby([*others, where]).mean().unstack()  # noqa: PD010  a series has no pivot_table
        rows += [_contrast(name, value, first, table[[first, value]].dropna()) for value in values if value != first]
    return Contrast(setting, pd.DataFrame(rows, columns=list(COLUMNS)))


def _measures(frame: pd.DataFrame, asked: str | Sequence[str] | None) -> list[str]:
    if asked is None:
        return [name for name in MEASURES if frame[name].notna().any()]
    names = [asked] if isinstance(asked, str) else list(asked)
    for name in names:
        if name not in frame or not pd.api.types.is_numeric_dtype(frame[name]):
            numbers = ", ".join(map(str, frame.select_dtypes("number")))
            msg = f"a study has no number {name!r} for each turn; there are {numbers}"
            raise ConfigurationError(msg)
    return names


def _contrast(measure: str, value: Any, baseline: Any, pairs: pd.DataFrame) -> dict[str, Any]:
    before, after = pairs[baseline].to_numpy(float), pairs[value].to_numpy(float)
    differences = after - before
    low, high = interval(differences)
    return {
        "measure": measure,
        "value": value,
        "baseline": baseline,
        "pairs": len(pairs),
        "mean": after.mean() if len(pairs) else math.nan,
        "mean_baseline": before.mean() if len(pairs) else math.nan,
        "difference": differences.mean() if len(pairs) else math.nan,
        "low": low,
        "high": high,
        "effect": effect_size(differences),
        "p_value": _p_value(differences),
    }


def interval(differences: np.ndarray) -> tuple[float, float]:
    """The bootstrap interval of the mean: bias-corrected (BCa) where scipy is installed, else percentiles.

    Missing with fewer than two pairs; a single point where all differences are equal.
    """
    if len(differences) < 2:  # noqa: PLR2004  nothing varies
        return math.nan, math.nan
    if np.ptp(differences) == 0:
        return float(differences[0]), float(differences[0])
    middle, spread = differences.mean(), np.ptp(differences)
    scaled = (differences - middle) / spread  # so that tiny and huge numbers are resampled like others
    low, high = _resampled(scaled, np.random.default_rng(0))  # the same table for the same study
    return float(low * spread + middle), float(high * spread + middle)


def _resampled(numbers: np.ndarray, generator: np.random.Generator) -> tuple[float, float]:
    try:
        from scipy.stats import bootstrap  # noqa: PLC0415  an extra
    except ImportError:
        return _percentiles(numbers, generator)
    found = bootstrap((numbers,), np.mean, confidence_level=LEVEL, n_resamples=RESAMPLES, rng=generator, batch=500)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _percentiles(numbers: np.ndarray, generator: np.random.Generator) -> tuple[float, float]:
    size = len(numbers)
    means = [numbers[generator.integers(0, size, size)].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def effect_size(differences: np.ndarray) -> float:
    """Cohen's d of paired differences; missing where they do not vary, for then there is nothing to measure it by."""
    if len(differences) < 2:  # noqa: PLR2004  nothing varies
        return math.nan
    spread = float(differences.std(ddof=1))
    return float(differences.mean()) / spread if spread else (0.0 if not differences.any() else math.nan)


def _p_value(differences: np.ndarray) -> float:
    if len(differences) < 2 or not differences.any():  # noqa: PLR2004  nothing to test
        return math.nan
    try:
        from scipy.stats import wilcoxon  # noqa: PLC0415  an extra
    except ImportError:
        return math.nan
    return float(wilcoxon(differences).pvalue)
