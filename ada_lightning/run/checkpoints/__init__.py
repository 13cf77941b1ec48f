"""Checkpoints of a run: whole, checked, found again, and deleted by rule. Imports no torch."""

from ada_lightning.run.checkpoints.manifest import damage, write_manifest
from ada_lightning.run.checkpoints.retention import Retention
from ada_lightning.run.checkpoints.store import CheckpointStore

__all__ = ["CheckpointStore", "Retention", "damage", "write_manifest"]
