"""Whether the TRL that is installed is one that this was tested with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

OLDEST, BELOW = (1, 16), (1, 17)
"""Tested is 1.16.0."""
NAMES = (
    "_generate_single_turn",
    "_tokenize_prompts",
    "_prepare_inputs",
    "_compute_loss",
)
"""Of GRPOTrainer, none of them public: the first two are called; what the others do with rows is counted on."""


def check_installed() -> None:
    """Compare TRL's version and names with those that are known.

    Raises:
        ImportError: none is installed, another version, or a name is gone.
    """
    tested = f">={_spelt(OLDEST)},<{_spelt(BELOW)}"
    try:
        found = version("trl")
    except PackageNotFoundError as error:
        raise ImportError("ada_lightning.adapters.trl needs TRL: pip install -e '.[trl]'") from error
    if not OLDEST <= tuple(int(part) for part in found.split(".")[:2]) < BELOW:
        raise ImportError(f"ada_lightning.adapters.trl was tested with trl{tested}, and {found} is installed")
    from trl import GRPOTrainer

    if missing := [name for name in NAMES if not hasattr(GRPOTrainer, name)]:
        raise ImportError(f"trl {found} has no GRPOTrainer.{', '.join(missing)}, which ada_lightning.adapters.trl uses")


def _spelt(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
