"""Whether the TRL that is installed is one that this was tested with."""

from __future__ import annotations

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
