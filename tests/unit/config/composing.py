"""Shipped configurations as a command line composes them, and what the check and its rules say of them."""

from __future__ import annotations

import shlex

import pytest
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import RULES, ConfigError, check_config
from ada_lightning.config.view import ConfigView
from ada_lightning.programs.start import CONFIG_DIR


def composed(*overrides, program="train"):
    """A program's configuration with these overrides."""
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        return compose(program, ["run_name=test", *overrides])


def problems(*overrides):
    """What the check refuses; it has to refuse something."""
    with pytest.raises(ConfigError) as error:
        check_config(composed(*overrides))
    return error.value.problems


def said(command):
    """What the rules say of a command line, whatever the constructors say of it."""
    run = ConfigView(composed(*shlex.split(command)))
    return [message for rule in RULES for message in rule(run)]
