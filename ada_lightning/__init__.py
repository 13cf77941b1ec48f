"""Adaptive-sampling reinforcement learning of language models (Reinforce-Ada) on Lightning and vLLM.

Importing this package imports nothing heavy: reward workers import it in processes that must start fast.
"""

__version__ = "0.2.0"
