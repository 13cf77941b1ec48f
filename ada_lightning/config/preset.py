"""An experiment of ``conf/`` as arguments of ordinary constructors: for training from Python, without a program."""

from __future__ import annotations

from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ada_lightning.config.assembly import make_parts
from ada_lightning.config.check import RULES, part_problems
from ada_lightning.config.composition import composed, own_hydra
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.config.overrides import override_errors
from ada_lightning.config.problems import ConfigError, distinct
from ada_lightning.config.view import ConfigView
from ada_lightning.core.method import Method
from ada_lightning.methods.recipe import PARTS

UPDATE = ("loss", "parameters", "optimizer")
YOURS = ("model", "reward", "trainer", "callbacks", "logger")
"""Parts that are made by their own constructors where a preset is used."""
OF_A_RUN = ("experiment_name", "run_name", "run_dir", "ckpt", "allow_other_method", "preview", "hydra")
"""Settings of the program's runs."""


class Preset:
    """The parts and settings that ``train.py`` makes of an experiment, checked as it checks them.

    What is left to whoever trains are the model, the source of prompts, the reward and the trainer with its callbacks
    and loggers: ``docs/python.md`` puts them together.

    Args:
        experiment: a name in ``conf/experiment``. Where it has a reward of its own (``dapo``, ``gdpo``,
            ``ada_spread_partial_credit``), that is left out too; the file says what it is.
        *overrides: settings and choices of parts as on the command line of ``train.py``: ``"num_steps=20"``,
            ``"optimizer.lr=1e-4"``, ``"loss/reduction=token_mean"``.
        **sampler: settings of the sampler: ``k_pos=2`` for ``"sampler.k_pos=2"``.

    Raises:
        ConfigError: what cannot work or would have no effect here, all in one message.

    Example:
        >>> preset = Preset("ada_seq_balance", "num_steps=20", k_pos=3)
        >>> preset.method.sampler.k_pos, preset.data["num_steps"], preset.rollout["sampling"].max_new_tokens
        (3, 20, 32)
    """

    def __init__(self, experiment: str, *overrides: str, **sampler: Any) -> None:
        lines = [f"+experiment={experiment}", *overrides, *(f"sampler.{name}={sampler[name]}" for name in sampler)]
        cfg = _checked(lines)
        self.method = Method(
            estimator=instantiate(cfg.estimator),
            sampler=instantiate(cfg.sampler),
            selection=instantiate(cfg.selection),
            refill=instantiate(cfg.refill),
            hints=instantiate(cfg.hints),
        )
        """For :class:`~ada_lightning.callbacks.adaptive_sampling.AdaptiveSampling`."""
        self.policy = {
            **_arguments(cfg.policy),
            **{name: instantiate(cfg[name]) for name in ("advantage", *UPDATE)},
            "token_masks": list(make_parts(cfg.token_masks).values()),
        }
        """For :class:`~ada_lightning.training.policy.PolicyModule`, without the folder of the model."""
        self.rollout = _arguments(cfg.rollout)
        """For :class:`~ada_lightning.rollout.service.RolloutService`."""
        self.data = {**_arguments(cfg.data), "curriculum": instantiate(cfg.curriculum)}
        """For :class:`~ada_lightning.data.datamodule.RolloutDataModule`, without the source of prompts."""


def _checked(lines: list[str]) -> DictConfig:
    """Compose what the lines say, keep what is made of it here, and refuse what cannot work."""
    problems = [problem for line in lines if (problem := _unread(line))]
    with own_hydra():
        problems = problems or override_errors(lines, CONFIG_DIR, "train")
    if problems:
        raise ConfigError(problems)
    whole = composed(lines)
    cfg = OmegaConf.masked_copy(whole, [str(key) for key in whole if key not in (*YOURS, *OF_A_RUN)])
    OmegaConf.set_struct(cfg, False)
    cfg.data.pop("source")
    run = ConfigView(cfg)
    problems = part_problems(run, [*PARTS, "loss", "parameters", "rollout"])
    if problems := distinct([*problems, *(message for rule in RULES for message in rule(run))]):
        raise ConfigError(problems)
    return cfg


def _unread(line: str) -> str:
    """Say that an override has no effect here; empty where it has one."""
    key = line.partition("=")[0].lstrip("+~")
    top, _, below = key.replace("/", ".").partition(".")
    is_source = top == "data" and (not below or below.partition(".")[0] == "source")
    if top in OF_A_RUN:
        return f"{line} has no effect here: a preset is not a run; leave it out"
    if top in YOURS or is_source:
        return (
            f"{line} has no effect here: the model, the source of prompts, the reward, the trainer, its callbacks and "
            "its loggers are made by their own constructors (docs/python.md)"
        )
    return ""


def _arguments(node: DictConfig) -> dict[str, Any]:
    """Return what the configuration gives a constructor, with the parts in it made."""
    keywords: dict[str, Any] = instantiate(node, _partial_=True).keywords
    return keywords
