"""Checks whether another trainer's package has a version that the adapter was tested with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def check_version(package: str, oldest: tuple[int, int], below: tuple[int, int], *, install: str = "") -> str:
    """Return the installed version.

    Args:
        package: as it is distributed, and as this project's extra is called where there is one.
        oldest: version that was tested, its first two numbers.
        below: the first one that was not.
        install: command that installs it, where it is no extra.

    Raises:
        ImportError: none is installed, or another version.
    """
    try:
        found = version(package)
    except PackageNotFoundError as error:
        command = install or f"pip install -e '.[{package}]'"
        raise ImportError(f"this adapter needs {package}: {command}") from error
    if not oldest <= tuple(int(part) for part in found.split(".")[:2]) < below:
        tested = f">={_spelt(oldest)},<{_spelt(below)}"
        raise ImportError(f"this adapter was tested with {package}{tested}, but {found} is installed")
    return found


def _spelt(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
