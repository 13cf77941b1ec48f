"""Responses of a model that does not train: drawn, graded, stored, and continued after an interruption."""

from ada_lightning.analysis.offline.response_store import JobSettings, ResponseStore
from ada_lightning.analysis.offline.sampling_job import SamplingJob

__all__ = ["JobSettings", "ResponseStore", "SamplingJob"]
