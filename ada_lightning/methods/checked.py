"""Settings that cannot work are refused when a part is made, all of them in one message."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.core.checks import refuse

Check = tuple[bool, str]
"""Whether a setting can work, and what to say if not: what is wrong, the value and the way out."""


class Checked:
    """A dataclass that looks at its settings once it has them.

    Raises:
        ValueError: what :meth:`_checks` finds, all in one message.
    """

    def __post_init__(self) -> None:
        refuse(*(message for can_work, message in self._checks() if not can_work))

    def _checks(self) -> Iterator[Check]:
        """Yield what must hold of the settings; a subclass adds its own to those of its base."""
        yield from ()


def at_least(least: int, **sizes: int) -> Iterator[Check]:
    """One check for each size, by its name."""
    return ((size >= least, f"{name} must be at least {least}; got {size}") for name, size in sizes.items())
