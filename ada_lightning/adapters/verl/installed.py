"""Whether the verl that is installed is one that this was tested with."""

from __future__ import annotations

from ada_lightning.adapters.tested import check_version


def check_installed() -> None:
    """Compare verl's version (tested: 0.9.1) with those that are known.

    Raises:
        ImportError: none is installed, or another version.
    """
    check_version("verl", (0, 9), (0, 10), install="install this package into verl's environment, with --no-deps")
