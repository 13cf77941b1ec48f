"""What a run's update really optimises, in words and numbers.

``describe_update`` is loaded when it is asked for: it needs torch, and the rules of this package do not.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ada_lightning.analysis.statement.describe import describe_update

__all__ = ["describe_update"]


def __getattr__(name: str) -> Any:
    if name != "describe_update":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from ada_lightning.analysis.statement.describe import describe_update

    return describe_update
