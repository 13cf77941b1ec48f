"""What a run's update really optimises, in words and numbers."""

from ada_lightning.analysis.statement.describe import describe_update

__all__ = ["describe_update"]
