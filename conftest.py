"""Modules for other trainers are collected where those are installed: importing them says what is missing."""

from importlib.util import find_spec

_MODULES = {
    "trl": "ada_lightning/adapters/trl/*",
    "tinker": "ada_lightning/adapters/tinker_loop.py",
    "tinker_cookbook": "ada_lightning/adapters/tinker_cookbook.py",
    "verl": "ada_lightning/adapters/verl/*",
    "skyrl": "ada_lightning/adapters/skyrl/*",
    "prime_rl": "ada_lightning/adapters/prime_rl/*",
    "openenv": "tests/unit/adapters/openenv_server.py",
}
collect_ignore_glob = [pattern for package, pattern in _MODULES.items() if find_spec(package) is None]
