"""Adaptive-sampling reinforcement learning of language models (Reinforce-Ada) on Lightning and vLLM.

Importing this package imports nothing heavy: reward workers import it in processes that must start fast.
"""

import os

_HERE = os.path.dirname(os.path.abspath(__file__))
if not os.path.isdir(os.path.join(_HERE, "callbacks")):
    # A checkout: ``callbacks`` and ``conf`` stand at its top. In a wheel they stand in here (pyproject.toml).
    __path__.append(os.path.dirname(_HERE))


def __getattr__(name: str) -> str:
    """Find ``__version__``, that of the installation, when it is asked for: it has to be read from a file."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ada-lightning")
    except PackageNotFoundError:
        return "0+unknown"  # files on the path, installed by nobody
