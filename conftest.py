"""Modules for other trainers are collected where those are installed: importing them says what is missing."""

import atexit
import gc
from importlib.util import find_spec

gc.disable()  # until all is imported, see tests/heap.py; nothing is looked for at the end either
atexit.register(gc.freeze)

_NEEDED = {
    "ada_lightning/adapters/trl/*": "trl",
    "tests/unit/adapters/trl_world.py": "trl",
    "tests/unit/adapters/async_world.py": "trl",
    "ada_lightning/adapters/tinker_loop.py": "tinker",
    "ada_lightning/adapters/tinker_cookbook.py": "tinker_cookbook",
    "ada_lightning/adapters/verl/*": "verl",
    "tests/unit/adapters/verl_world.py": "verl",
    "ada_lightning/adapters/skyrl/*": "skyrl",
    "tests/unit/adapters/skyrl_world.py": "skyrl",
    "ada_lightning/adapters/prime_rl/*": "prime_rl",
    "tests/unit/adapters/prime_world.py": "prime_rl",
    "tests/unit/adapters/openenv_server.py": "openenv",
}
"""By pattern, the package without which it cannot be imported."""
collect_ignore_glob = [pattern for pattern, package in _NEEDED.items() if find_spec(package) is None]
