"""How this program was started, for the commands that messages, help texts and records show. Imports almost nothing."""

from __future__ import annotations

import sys


def start_of(program: str) -> list[str]:
    """Words that start a program of ours, in the way that this one was started: ``ada train``, ``python train.py``."""
    module = getattr(sys.modules["__main__"], "__spec__", None)  # none where a file of a checkout was started
    is_installed = module is not None and module.name.startswith("ada_lightning.")
    return ["ada", program] if is_installed else ["python", f"{program}.py"]
