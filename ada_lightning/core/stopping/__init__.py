"""When a prompt's sampling ends, as a function of its counts, and the path counting that this makes possible."""

from ada_lightning.core.stopping.rule import CappedRule, FixedRule, PilotRule, QuotaRule, StoppingRule

__all__ = ["CappedRule", "FixedRule", "PilotRule", "QuotaRule", "StoppingRule"]
