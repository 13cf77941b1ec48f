"""The size of an update, its failures, and what happens then."""

from ada_lightning.training.updates.guard import UpdateGuard, UpdateOutOfMemoryError, halved, is_out_of_memory
from ada_lightning.training.updates.schedule import ConstantSchedule, CosineSchedule, LinearSchedule

__all__ = [
    "ConstantSchedule",
    "CosineSchedule",
    "LinearSchedule",
    "UpdateGuard",
    "UpdateOutOfMemoryError",
    "halved",
    "is_out_of_memory",
]
