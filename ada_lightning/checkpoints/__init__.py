"""Checkpoints of a run: whole, checked, found again, and deleted by rule. Imports no torch."""

from ada_lightning.checkpoints.manifest import damage, write_manifest
from ada_lightning.checkpoints.retention import Retention
from ada_lightning.checkpoints.store import CheckpointStore

__all__ = ["CheckpointStore", "Retention", "damage", "write_manifest"]
