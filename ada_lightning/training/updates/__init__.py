"""What may go wrong in an update, and what then."""

from ada_lightning.training.updates.guard import UpdateGuard
from ada_lightning.training.updates.memory import UpdateOutOfMemoryError, is_out_of_memory
from ada_lightning.training.updates.split import halved

__all__ = ["UpdateGuard", "UpdateOutOfMemoryError", "halved", "is_out_of_memory"]
