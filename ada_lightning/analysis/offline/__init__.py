"""Draws, grades and stores responses of a model that does not train, and continues after an interruption."""

from ada_lightning.analysis.offline.response_store import JobSettings, ResponseStore
from ada_lightning.analysis.offline.sampling_job import SamplingJob

__all__ = ["JobSettings", "ResponseStore", "SamplingJob"]
