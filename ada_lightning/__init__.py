"""Adaptive-sampling reinforcement learning of language models (Reinforce-Ada) on Lightning and vLLM.

Importing this package imports nothing heavy: reward workers import it in processes that must start fast.
"""

import os

__version__ = "0.2.0"
"""The only place that has it: ``pyproject.toml`` reads it from here."""

_HERE = os.path.dirname(os.path.abspath(__file__))
if not os.path.isdir(os.path.join(_HERE, "callbacks")):
    # A checkout: ``callbacks`` and ``conf`` stand at its top. In a wheel they stand in here (pyproject.toml).
    __path__.append(os.path.dirname(_HERE))
