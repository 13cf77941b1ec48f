"""Shipped configurations as a command line composes them, and what the check says of them."""

from __future__ import annotations

import pytest
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.programs.start import CONFIG_DIR


def composed(*overrides):
    """train.py's configuration with these overrides."""
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        return compose("train", ["run_name=test", *overrides])


def problems(*overrides):
    """What the check refuses; it has to refuse something."""
    with pytest.raises(ConfigError) as error:
        check_config(composed(*overrides))
    return error.value.problems
