"""The command ``ada objective``: with what ``ada train`` composes of ``+experiment=NAME key=value ...``, too."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any


def main() -> None:
    """Do what the command line asks for."""
    if any(word.startswith("+experiment=") for word in sys.argv):
        from ada_lightning.methods.catalog import entries

        entries()  # before anything imports the methods: only then does the cache keep what is made
    from ada_lightning.objective import command

    command.main(compose=composed_settings)


def composed_settings(arguments: Sequence[str]) -> Mapping[str, Any]:
    """Compose what decides the update, as ``ada train`` does of the same arguments.

    Raises:
        ValueError: it would refuse them; the text says why.
    """
    from hydra.errors import HydraException
    from omegaconf import OmegaConf

    from ada_lightning.config.composition import composed, own_hydra
    from ada_lightning.config.generated import CONFIG_DIR
    from ada_lightning.config.overrides import override_errors
    from ada_lightning.objective.readers.ada import DEFAULTS

    with own_hydra():
        problems = override_errors(list(arguments), CONFIG_DIR, "train")
    if problems:
        raise ValueError("\n".join(str(problem) for problem in problems))
    try:
        cfg = composed(arguments)
    except HydraException as error:
        raise ValueError(str(error).splitlines()[0]) from None
    found = {}
    for key in DEFAULTS:
        value = OmegaConf.select(cfg, key)
        found[key] = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    return found


if __name__ == "__main__":
    main()
