"""prime-rl's ``orchestrator`` command, whose training source asks a memory for tasks: ``docs/prime_rl.md``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from ada_lightning.adapters.prime_rl.settings import read_settings


def main() -> None:
    """Start prime-rl's orchestrator, whose own arguments follow."""
    from prime_rl.configs.orchestrator import OrchestratorConfig
    from prime_rl.utils.config import cli
    from prime_rl.utils.process import set_proc_title

    set_proc_title("Orchestrator")
    config = cli(OrchestratorConfig)
    install(config)
    from prime_rl.orchestrator.orchestrator import run_orchestrator

    asyncio.run(run_orchestrator(config))


def install(config: Any) -> None:
    """Put the adaptive training source in the place of prime-rl's, for an orchestrator that is imported after this.

    Args:
        config: the orchestrator's.

    Raises:
        ConfigError: of ours or of prime-rl's settings, what cannot work.
        RuntimeError: the orchestrator was imported before, and has the other one.
    """
    settings = read_settings(config)
    if "prime_rl.orchestrator.orchestrator" in sys.modules:
        raise RuntimeError("prime_rl.orchestrator.orchestrator was imported before install(), with its own source")
    from prime_rl.orchestrator import train_source

    from ada_lightning.adapters.prime_rl.source import source_class

    train_source.TrainSource = source_class(settings, int(config.max_off_policy_steps))


if __name__ == "__main__":
    main()
