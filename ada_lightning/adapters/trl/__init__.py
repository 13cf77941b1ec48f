"""Adaptive sampling in TRL's GRPOTrainer: ``docs/trl.md``.

Needs TRL of the tested range, and says so in one line where it is another or none.
"""

from ada_lightning.adapters.tested import check_version

NAMES = ("_generate_single_turn", "_tokenize_prompts", "_prepare_inputs", "_compute_loss")
"""Of GRPOTrainer, none of them public: the first two are called; what the others do with rows is counted on."""


def check_installed() -> None:
    """Compare TRL's version (tested: 1.16.0) and names with those that are known.

    Raises:
        ImportError: none is installed, another version, or a name is gone.
    """
    found = check_version("trl", (1, 16), (1, 17))
    from trl import GRPOTrainer

    if missing := [name for name in NAMES if not hasattr(GRPOTrainer, name)]:
        raise ImportError(f"trl {found} has no GRPOTrainer.{', '.join(missing)}, which ada_lightning.adapters.trl uses")


check_installed()

# After the check, whose message is the better one.
from ada_lightning.adapters.trl.graded import graded_by  # noqa: E402
from ada_lightning.adapters.trl.rollouts import AdaRollouts  # noqa: E402

__all__ = ["AdaRollouts", "graded_by"]
