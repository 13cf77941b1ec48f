"""Adaptive sampling in TRL's GRPOTrainer: ``docs/trl.md``.

Needs TRL of the tested range, and says so in one line where it is another or none.
"""

from ada_lightning.adapters.trl.installed import check_installed

check_installed()

from ada_lightning.adapters.trl.rollouts import AdaRollouts  # noqa: E402 - after the check, whose message is the better one

__all__ = ["AdaRollouts"]
