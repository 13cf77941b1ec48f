"""What may go wrong in an update, and what then."""

from ada_lightning.updates.guard import UpdateGuard
from ada_lightning.updates.memory import UpdateOutOfMemoryError, is_out_of_memory
from ada_lightning.updates.split import halved

__all__ = ["UpdateGuard", "UpdateOutOfMemoryError", "halved", "is_out_of_memory"]
