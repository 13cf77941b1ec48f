"""Conditions on columns that a row must meet to become a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.data.columns import lookup


class ColumnRange:
    """Keeps rows whose number in a column lies between two bounds, both included. A row without a value is dropped.

    Args:
        column: its name; dotted for what is inside an object or list. Numbers, or text that is one.
        minimum: lowest value that is kept; None for no bound.
        maximum: highest value that is kept; None for no bound.

    Raises:
        ValueError: no bound, or bounds that no number meets.
    """

    def __init__(self, *, column: str, minimum: float | None = None, maximum: float | None = None) -> None:
        if minimum is None and maximum is None:
            raise ValueError(f"ColumnRange of column {column!r} needs minimum or maximum")
        if minimum is not None and maximum is not None and minimum > maximum:
            raise ValueError(f"ColumnRange of column {column!r}: minimum = {minimum} is above maximum = {maximum}")
        self.column, self.minimum, self.maximum = column, minimum, maximum
        low, high = "" if minimum is None else f"{minimum} <= ", "" if maximum is None else f" <= {maximum}"
        self.label = f"{low}{column}{high}"
        """The condition, for the report."""

    def accepts(self, columns: Mapping[str, Any]) -> bool:
        """Whether a row meets the condition.

        Raises:
            KeyError: there is no such column.
            ValueError: its value is no number.
        """
        value = lookup(columns, self.column)
        if value is None:
            return False
        try:
            if isinstance(value, bool):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"column {self.column!r} must be a number for {self.label}; found {value!r}") from error
        # Written so that NaN meets no bound.
        return (self.minimum is None or number >= self.minimum) and (self.maximum is None or number <= self.maximum)


class ColumnIn:
    """Keeps rows whose value in a column is one of some.

    Args:
        column: its name; dotted for what is inside an object or list.
        values: those that are kept, compared with ``==``: text is not equal to a number.
        exclude: keep the others instead.

    Raises:
        ValueError: no values.
    """

    def __init__(self, *, column: str, values: Sequence[Any], exclude: bool = False) -> None:
        self.column, self.values, self.exclude = column, list(values), exclude
        if not self.values:
            raise ValueError(f"ColumnIn of column {column!r} needs at least one value")
        self.label = f"{column} {'not ' * exclude}in {self.values}"
        """The condition, for the report."""

    def accepts(self, columns: Mapping[str, Any]) -> bool:
        """Whether a row meets the condition.

        Raises:
            KeyError: there is no such column.
        """
        return (lookup(columns, self.column) in self.values) is not self.exclude
