"""An experiment of ``conf/`` as the parts of a method, without a run, a model or an engine.

Composed are the files that ``train.py`` composes; kept of them is what decides who is sampled, what trains and what it
weighs. The rest is the part of whoever trains: an experiment that consists of such a rest is refused by a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from ada_lightning.adapters.reductions import RULES as REDUCTIONS
from ada_lightning.adapters.reductions import Reduction
from ada_lightning.config.composition import composed
from ada_lightning.config.folder import CONFIG_DIR
from ada_lightning.config.keys import accepted_keys, unknown_key, unknown_keys
from ada_lightning.config.method_rules import METHOD_RULES, PARTS
from ada_lightning.config.problems import ConfigError, distinct, interpolation_errors, missing_values
from ada_lightning.config.setup import ADVANTAGES, Setup
from ada_lightning.config.values import value_errors
from ada_lightning.core.method import Method
from ada_lightning.core.protocols import Advantage, Selection, Trait
from ada_lightning.core.step_records import StepSettings

SETTINGS = ("positive_threshold", "truncated", "grader_failure")
"""Of ``rollout``: what a response counts as."""
_PLAIN_LOSSES = ("ClippedPolicyLoss", "ReinforceLoss", "RaftLoss")
"""Losses whose gradient is that of advantage times log-probability where the ratio is 1, as in the one update that a
rollout gets."""


@dataclass(frozen=True, slots=True)
class ComposedMethod:
    """The parts of an experiment, made once."""

    cfg: DictConfig
    """Of the parts alone."""
    method: Method
    advantage: Advantage
    settings: StepSettings
    reduction: Reduction
    needs: frozenset[str]
    """What must be told of every response: of ``answer``, ``components`` and ``logprobs``."""
    needs_texts: bool
    """Whether it asks what prompts say."""
    needs_metrics: bool
    """Whether its selection learns from the trainer's figures."""

    @property
    def max_kept(self) -> int:
        """Most responses of one prompt that train in a step."""
        selection = self.method.selection.within
        most = int(getattr(selection, "group_size", 0) or 2 * getattr(selection, "max_per_class", 0))
        return most or self.method.sampler.most_per_prompt


def compose_method(experiment: str, overrides: Mapping[str, Any], *, seed: int) -> ComposedMethod:
    """Compose an experiment and make its parts.

    Args:
        experiment: of ``conf/experiment``.
        overrides: a group's option by the group's name (``sampler="positive"``, ``"loss/reduction"``), a setting by its
            dotted key (``"sampler.n_max"``), or the sampler's own by its bare name (``n_max``).
        seed: of every choice.

    Raises:
        ConfigError: all that cannot work, in one message.
    """
    choices, values = _sorted_out(overrides)
    cfg = _composed(experiment, choices)
    if refused := list(_refusals(experiment, cfg)):
        raise ConfigError(refused)
    cfg = _parts_alone(cfg, seed)
    for key, value in values.items():
        OmegaConf.update(cfg, key, value, merge=isinstance(value, Mapping), force_add=True)
    run = Setup(cfg)
    if refused := list(_part_refusals(experiment, run)) or _problems(run):
        raise ConfigError(refused)
    selection, advantage, sampler, refill = (run.part(key) for key in ("selection", "advantage", "sampler", "refill"))
    method = Method(
        estimator=run.part("estimator"),
        sampler=sampler,
        selection=selection,
        refill=refill,
        curriculum=run.part("curriculum"),
    )
    settings = StepSettings(seed=seed, **{name: cfg.rollout[name] for name in SETTINGS})
    reduction = REDUCTIONS[_name(run, "loss.reduction")]
    return ComposedMethod(
        cfg=cfg,
        method=method,
        advantage=advantage,
        settings=settings,
        reduction=reduction,
        needs=frozenset(_needs(run)),
        needs_texts="embedding" in (cfg.estimator or {}),
        needs_metrics=type(selection).learn is not Selection.learn,
    )


def experiments() -> list[str]:
    """Names of ``conf/experiment``, those in its folders too."""
    folder = CONFIG_DIR / "experiment"
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.yaml"))


def _sorted_out(overrides: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Part options of groups from values of settings, and refuse what nothing here would read."""
    choices: dict[str, str] = {}
    values: dict[str, Any] = {}
    problems = []
    for name, value in overrides.items():
        top, _, rest = name.replace("/", ".").partition(".")
        if isinstance(value, str) and (name in PARTS or "/" in name):
            if top in PARTS or name == "loss/reduction":
                choices[name] = value
                continue
        elif "." not in name and "/" not in name:
            values[name if name in PARTS else f"sampler.{name}"] = value
            continue
        elif "/" not in name and (top in PARTS or (top == "rollout" and rest in SETTINGS)):
            values[name] = value
            continue
        problems.append(_unread(name))
    if problems:
        raise ConfigError(problems)
    return choices, values


def _unread(name: str) -> str:
    settings = ", ".join(f"rollout.{setting}" for setting in SETTINGS)
    return (
        f"{name} has no effect here: the model, its responses, their rewards and the update are your own loop's. What "
        f"can be set are the parts {', '.join(PARTS)}, their keys, loss/reduction, {settings}"
    )


def _composed(experiment: str, choices: Mapping[str, str]) -> DictConfig:
    if experiment not in (known := experiments()):
        near = get_close_matches(experiment, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError([f"unknown method {experiment!r}; {hint}methods: {', '.join(known)}"])
    lines = [f"+experiment={experiment}", *(f"{group}={option}" for group, option in choices.items())]
    try:
        return composed(lines)
    except HydraException as error:
        raise ConfigError([f"{' '.join(lines)}: {error}"]) from error


def _parts_alone(cfg: DictConfig, seed: int) -> DictConfig:
    """Keep what the parts are made of; all they refer to is among it."""
    kept: dict[str, Any] = {name: cfg[name] for name in PARTS if name in cfg}
    rollout = {name: cfg.rollout[name] for name in SETTINGS}
    kept["rollout"] = rollout | {"sampling": {"max_new_tokens": 1}}  # a length that whoever trains gives with each step
    kept["loss"] = {"reduction": cfg.loss.reduction}
    return OmegaConf.create({"seed": seed} | {name: _unresolved(node) for name, node in kept.items()})


def _unresolved(node: Any) -> Any:
    return OmegaConf.to_container(node, resolve=False) if OmegaConf.is_config(node) else node


def _refusals(experiment: str, cfg: DictConfig) -> Iterator[str]:
    """Yield a sentence for each part of an experiment that lies in the update."""
    loss = str(cfg.loss.get("_target_")).rpartition(".")[2]
    updates = cfg.data.num_minibatches * cfg.data.epochs_per_rollout
    sampler = str(cfg.sampler.get("_target_")).rpartition(".")[2]
    way_out = f"use a method that has its sampler ({sampler}) and a plain loss, and do this part in your own update"
    if cfg.token_masks:
        yield f"{experiment} masks tokens by figures of the policy ({', '.join(map(str, cfg.token_masks))}); {way_out}"
    if loss not in _PLAIN_LOSSES:
        yield f"{experiment} consists of its loss, {loss}, which is the trainer's and not the core's; {way_out}"
    if updates > 1:
        yield f"{experiment} makes {updates} updates of each rollout, all but the first of them off-policy; {way_out}"
    for term in ("kl_coef", "entropy_coef"):
        if cfg.loss.get(term):
            yield f"{experiment} adds a term to its loss, loss.{term} = {cfg.loss[term]}; {way_out}"


def _problems(run: Setup) -> list[str]:
    light = OmegaConf.masked_copy(run.cfg, [str(key) for key in run.cfg if key != "loss"])  # whose classes load torch
    plain: Any = OmegaConf.to_container(light, resolve=False)
    by_key = _unknown(plain) | missing_values(light) | value_errors(light)
    problems = [*by_key.values(), *interpolation_errors(light)]
    if not problems:
        problems += [message for key in PARTS for message in run.errors(key)]
    if not problems:
        problems += [message for rule in METHOD_RULES for message in rule(run)]
        reduction = _name(run, "loss.reduction")
        if reduction not in REDUCTIONS:
            problems.append(f"loss.reduction = {reduction} is not known here; known are {', '.join(REDUCTIONS)}")
    return distinct(problems)


def _unknown(plain: Mapping[str, Any]) -> dict[str, str]:
    found = unknown_keys(plain)
    for key in [key for key in found if key.startswith("sampler.")]:  # a bare name was one of the sampler's
        target = plain["sampler"]["_target_"]
        accepted = accepted_keys(target) or ()
        found[key] = unknown_key(key, accepted, target.rpartition(".")[2])
    return found


def _part_refusals(experiment: str, run: Setup) -> Iterator[str]:
    """Yield a sentence for each part that asks the policy itself. By names, where loading the part loads torch."""
    from ada_lightning.methods.advantages.preference import ComparesWithInitial

    if _name(run, "estimator") == "ValueNetworkEstimator":
        yield (
            f"{experiment}: ValueNetworkEstimator learns from the policy's hidden states, which a loop outside does "
            "not hand over; use estimator='beta_history', 'ema' or 'similar_prompts'"
        )
    if _name(run, "estimator.embedding") == "PolicyEmbedding":
        yield (
            f"{experiment}: PolicyEmbedding places prompts by the policy's hidden states, which a loop outside does "
            "not hand over; use **{'estimator/embedding': 'words'}, or estimator='beta_history'"
        )
    if _name(run, "estimator") == "KlHistory":
        yield (
            f"{experiment}: KlHistory forgets by how far the policy has moved on earlier responses, which a loop "
            "outside does not hand over; use estimator='beta_history'"
        )
    for key in (key for key in ADVANTAGES if run.is_a(key, ComparesWithInitial)):
        yield (
            f"{experiment}: {_name(run, key)} compares with the initial policy's log-probabilities, which a "
            "loop outside does not hand over; use another advantage"
        )
    norm = _name(run, "sampler.gradient_norm")
    if norm not in ("", "ConstantNorm"):
        yield (
            f"{experiment}: {norm} asks for gradients of the policy, which a loop outside does not hand over; use "
            "**{'sampler/gradient_norm': 'constant'}, or another sampler"
        )
    if run.has("sampler", Trait.CUTS_RESPONSES):
        yield (
            f"{experiment}: {_name(run, 'sampler')} gives responses limits of their own, which a loop outside does not "
            "ask its engine for; use another sampler"
        )


def _name(run: Setup, key: str) -> str:
    """Name of a part's class; empty where there is none."""
    return str(run.value(f"{key}._target_") or "").rpartition(".")[2]


def _needs(run: Setup) -> Iterator[str]:
    """What rules ask of single responses, beside their reward and length."""
    from ada_lightning.methods.advantages import GdpoAdvantage
    from ada_lightning.methods.published.xrpo import NoveltyAdvantage
    from ada_lightning.methods.selection import BanditSelection

    component: Any = getattr(run.part("refill"), "component", "")
    if component or any(run.is_a(key, GdpoAdvantage) for key in ADVANTAGES):
        yield "components"
    is_novelty = any(run.is_a(key, NoveltyAdvantage) for key in ADVANTAGES)
    if is_novelty or run.is_a("selection", BanditSelection):
        yield "logprobs"
    if Trait.READS_ANSWERS in run.part("sampler").traits:
        yield "answer"
