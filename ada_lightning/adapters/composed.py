"""Makes the parts of a method for your own loop: without a run, a model or an engine, and without Hydra or torch.

It keeps what decides who is sampled, what trains and what each response weighs. The rest of a recipe is the trainer's
own. A method that consists of such a rest is refused by a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ada_lightning.adapters.reductions import LOSSES, RULES, TERMS, Reduction
from ada_lightning.config.keys import accepted_keys, unknown_key, unknown_keys
from ada_lightning.config.method_rules import METHOD_RULES
from ada_lightning.config.problems import ConfigError, distinct, interpolation_errors, missing_values
from ada_lightning.config.values import value_errors
from ada_lightning.core.checks import similar
from ada_lightning.core.method import Method
from ada_lightning.core.options import Option, Use, option_of, plain
from ada_lightning.core.protocols import Advantage, Selection, Trait
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.find import find_option, find_recipe, option_names, recipe_names
from ada_lightning.methods.recipe import DEFAULTS, PARTS, Recipe, put
from ada_lightning.methods.view import ADVANTAGES, MethodView, PlainView

SETTINGS = {"positive_threshold": 0.7, "truncated": "grade", "grader_failure": "exclude"}
"""Settings of ``rollout`` that say what a response counts as, with the defaults of a run (``conf/rollout``)."""


@dataclass(frozen=True, slots=True)
class ComposedMethod:
    """The parts of a method, made once."""

    cfg: Mapping[str, Any]
    """Of the parts alone, as their options have it."""
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

    def step_wide(self) -> list[str]:
        """Return names of parts by which what trains of one prompt depends on the others of its step."""
        selection, advantage, refill = self.method.selection, self.advantage, self.method.refill
        compares = type(selection).select_all is not Selection.select_all
        divides = self.reduction is not RULES["constant"] and self.reduction is not RULES["prompt_mean"]
        return [
            *([type(selection).__name__] if compares or self.needs_metrics else []),
            *([type(advantage).__name__] if type(advantage).assign is not Advantage.assign else []),
            *([type(refill).__name__] if refill.is_on else []),
            *([f"loss/reduction={self.cfg['loss']['reduction']}"] if divides else []),
        ]


def compose_method(method: str | Recipe, overrides: Mapping[str, Any], *, seed: int) -> ComposedMethod:
    """Make the parts of a method.

    Args:
        method: a recipe, or the name of one.
        overrides: a part by its group's name, as a class, :func:`~ada_lightning.core.options.use` of one or an option's
            word (``sampler="positive"``, ``"loss/reduction"``); a setting by its dotted key (``"sampler.n_max"``); or
            the sampler's own by its bare name (``n_max``). What the recipe sets of a part is kept where another is
            chosen by its word, as on the command line; a class or a ``use`` stands for itself.
        seed: of every choice.

    Raises:
        ConfigError: all that cannot work, in one message.
    """
    if not isinstance(method, str | Recipe):
        raise TypeError(f"the method is {method!r}: give a recipe, or the name of one")
    recipe = _known(method) if isinstance(method, str) else method
    parts, options, values = _sorted_out(overrides)
    try:
        if refused := list(_refusals(recipe)):
            raise ConfigError(refused)
        seed = plain(seed, "seed")
        cfg = _composed(recipe, parts, options, seed)
        for key, value in values.items():
            put(cfg, key, plain(value, key))
    except ConfigError:
        raise
    except (LookupError, ValueError) as error:
        raise ConfigError([str(error.args[0])]) from error
    run = PlainView(cfg)
    if refused := list(_part_refusals(recipe.name, run)) or _problems(run):
        raise ConfigError(refused)
    selection, sampler = run.part("selection"), run.part("sampler")
    return ComposedMethod(
        cfg=cfg,
        method=Method(
            estimator=run.part("estimator"),
            sampler=sampler,
            selection=selection,
            refill=run.part("refill"),
            hints=run.part("hints"),
            curriculum=run.part("curriculum"),
        ),
        advantage=run.part("advantage"),
        settings=StepSettings(seed=seed, **{name: cfg["rollout"][name] for name in SETTINGS}),
        reduction=RULES[cfg["loss"]["reduction"]],
        needs=frozenset(_needs(run)),
        needs_texts="embedding" in cfg["estimator"],
        needs_metrics=type(selection).learn is not Selection.learn,
    )


def _known(name: str) -> Recipe:
    try:
        return find_recipe(name)
    except LookupError:
        known = recipe_names()
        near = similar(name, known)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError([f"unknown method {name!r}; {hint}methods: {', '.join(known)}"]) from None


def _sorted_out(overrides: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """Return chosen parts, options within them, and settings, each by its key; refuse what nothing here would read."""
    parts: dict[str, Any] = {}
    options: dict[str, str] = {}
    values: dict[str, Any] = {}
    problems = []
    for name, value in overrides.items():
        top, _, rest = name.replace("/", ".").partition(".")
        if name in PARTS and not isinstance(value, Mapping):
            parts[name] = value
        elif "/" in name and isinstance(value, str) and (top in PARTS or name == "loss/reduction"):
            options[name] = value
        elif "." not in name and "/" not in name:
            values[name if name in PARTS else f"sampler.{name}"] = value
        elif "/" not in name and (top in PARTS or (top == "rollout" and rest in SETTINGS)):
            values[name] = value
        else:
            problems.append(_unread(name))
    if problems:
        raise ConfigError(problems)
    return parts, options, values


def _unread(name: str) -> str:
    settings = ", ".join(f"rollout.{setting}" for setting in SETTINGS)
    return (
        f"{name} has no effect here: your own loop has the model, draws, grades and updates. What "
        f"can be set are the parts {', '.join(PARTS)}, their keys, loss/reduction, {settings}"
    )


def _composed(recipe: Recipe, parts: Mapping[str, Any], options: Mapping[str, str], seed: int) -> dict[str, Any]:
    """Every part as its option has it, changed as the recipe says; references between them are left as they are.

    Raises:
        LookupError: there is no such option; its first argument says which there are.
    """
    options = {**{name: word for name, word in recipe.options.items() if name.split("/")[0] not in parts}, **options}
    reduction = options.get("loss/reduction") or recipe.reduction or LOSSES[recipe.loss or DEFAULTS["loss"]]
    cfg: dict[str, Any] = {"seed": seed, "rollout": dict(SETTINGS), "loss": {"reduction": reduction}}
    for group in PARTS:
        chosen = parts[group] if group in parts else getattr(recipe, group) or DEFAULTS.get(group)
        if chosen is not None or group in parts:
            option = _option(group, chosen)
            for name in (name for name in options if name.startswith(f"{group}/")):
                if name.partition("/")[2] not in option.choices:
                    raise LookupError(
                        f"{name}={options[name]} has no effect: {group}={option.name} has no such choice; leave it "
                        f"out, or choose another {group}"
                    )
            _lay(cfg, group, option, options)
            if group in parts and isinstance(chosen, Use):
                for name, value in chosen.arguments.items():
                    cfg[group][name] = plain(value, f"{group}.{name}")
    for key, values in recipe.values().items():
        if key not in PARTS and (near := similar(key, PARTS, cutoff=0.8)):
            raise LookupError(f"{recipe.name} sets {key}, which does not exist; did you mean {near[0]}?")
        own = {name: value for name, value in values.items() if name in SETTINGS} if key == "rollout" else values
        if key in (*PARTS, "rollout") and own and isinstance(parts.get(key, ""), str):
            put(cfg, key, own)
    return cfg


def _option(group: str, chosen: Any) -> Option:
    if not isinstance(chosen, str):
        return option_of(chosen.kind if isinstance(chosen, Use) else chosen, group)
    try:
        return find_option(group, chosen)
    except LookupError:
        names = option_names(group)
        near = similar(chosen, names)
        hint = f"did you mean {near[0]}? " if near else ""
        raise LookupError(f"unknown option {group}={chosen}; {hint}options: {', '.join(names)}") from None


def _lay(cfg: dict[str, Any], group: str, option: Option, options: Mapping[str, str]) -> None:
    """Put an option where it belongs, with what it chooses within itself."""
    values = deepcopy(dict(option.values))
    node = values if option.package != "_global_" else values[group]
    for name, word in option.choices.items():
        within = f"{group}/{name}"
        node[name] = deepcopy(dict(_option(within, options.get(within, word)).values))
    for default in option.defaults:
        if isinstance(default, str) and "@" in default:  # an option of the same group as a setting of this one
            word, _, name = default.partition("@")
            node[name] = deepcopy(dict(_option(group, word).values))
        elif isinstance(default, Mapping):  # what goes with it at the top: an objective
            for key, word in default.items():
                other = key.removeprefix("/")
                cfg.setdefault(other, deepcopy(dict(_option(other, word).values)))
    cfg[group] = node


def _refusals(recipe: Recipe) -> Iterator[str]:
    """Yield a sentence for each part of a method that lies in the update."""
    values = recipe.values()
    sampler = recipe.word("sampler") if recipe.sampler is not None else DEFAULTS["sampler"]
    way_out = f"use a method that has its sampler ({sampler}) and a plain loss, and do this part in your own update"
    data, loss = values.get("data", {}), TERMS.get(recipe.loss or "", {}) | values.get("loss", {})
    updates = data.get("num_minibatches", 1) * data.get("epochs_per_rollout", 1)
    if recipe.builds_on:
        yield (
            f"{recipe.name} builds on {', '.join(recipe.builds_on)}, which is for whole runs: its grading and its "
            f"updates are the trainer's and not the core's; {way_out}"
        )
    if recipe.token_masks:
        yield f"{recipe.name} masks tokens by figures of the policy ({', '.join(recipe.token_masks)}); {way_out}"
    if recipe.loss is not None and recipe.loss not in LOSSES:
        yield (
            f"{recipe.name} consists of its loss, {recipe.loss}, which is the trainer's and not the core's; {way_out}"
        )
    if updates > 1:
        yield f"{recipe.name} makes {updates} updates of each rollout, all but the first of them off-policy; {way_out}"
    for term in ("kl_coef", "entropy_coef"):
        if loss.get(term):
            yield f"{recipe.name} adds the term loss.{term} = {loss[term]} to its loss; {way_out}"


def _problems(run: PlainView) -> list[str]:
    by_key = _unknown(run.plain) | missing_values(run) | value_errors(run)
    problems = [*by_key.values(), *interpolation_errors(run)]
    if not problems:
        problems += [message for key in PARTS if (message := run.make(key)[1])]
    if not problems:
        problems += [message for rule in METHOD_RULES for message in rule(run)]
        if (reduction := run.value("loss.reduction")) not in RULES:
            problems.append(f"loss.reduction = {reduction} does not work here; use one of {', '.join(RULES)}")
    return distinct(problems)


def _unknown(plain: Mapping[str, Any]) -> dict[str, str]:
    found = unknown_keys(plain)
    for key in [key for key in found if key.startswith("sampler.")]:  # a bare name was one of the sampler's
        target = plain["sampler"]["_target_"]
        accepted = accepted_keys(target) or ()
        found[key] = unknown_key(key, accepted, target.rpartition(".")[2])
    return found


def _part_refusals(experiment: str, run: MethodView) -> Iterator[str]:
    """Yield a sentence for each part that asks the policy itself. By names, where loading the part loads torch."""
    from ada_lightning.methods.published.preference import ComparesWithInitial

    if _name(run, "estimator") == "ValueNetworkEstimator":
        yield (
            f"{experiment}: ValueNetworkEstimator learns from the policy's hidden states, which a loop "
            "of your own does not hand over; use estimator='beta_history', 'ema' or 'similar_prompts'"
        )
    if _name(run, "estimator.embedding") == "PolicyEmbedding":
        yield (
            f"{experiment}: PolicyEmbedding places prompts by the policy's hidden states, which a loop "
            "of your own does not hand over; use **{'estimator/embedding': 'words'}, or estimator='beta_history'"
        )
    if _name(run, "estimator") == "KlHistory":
        yield (
            f"{experiment}: KlHistory forgets by how far the policy has moved on earlier responses, which a loop "
            "of your own does not hand over; use estimator='beta_history'"
        )
    for key in (key for key in ADVANTAGES if run.is_a(key, ComparesWithInitial)):
        yield (
            f"{experiment}: {_name(run, key)} compares with the initial policy's log-probabilities, which a "
            "loop of your own does not hand over; use another advantage"
        )
    norm = _name(run, "sampler.gradient_norm")
    if norm not in ("", "ConstantNorm"):
        yield (
            f"{experiment}: {norm} asks for gradients of the policy, which a loop of your own does not hand over; use "
            "**{'sampler/gradient_norm': 'constant'}, or another sampler"
        )
    if run.has("sampler", Trait.CUTS_RESPONSES):
        yield (
            f"{experiment}: {_name(run, 'sampler')} gives responses limits of their own, which a loop of your own does "
            "not ask its engine for; use another sampler"
        )


def _name(run: MethodView, key: str) -> str:
    """Name of a part's class; empty where there is none."""
    return str(run.value(f"{key}._target_") or "").rpartition(".")[2]


def _needs(run: MethodView) -> Iterator[str]:
    """What rules ask of single responses, in addition to their reward and length."""
    from ada_lightning.methods.published.gdpo import GdpoAdvantage
    from ada_lightning.methods.published.rollout_bandits import BanditSelection
    from ada_lightning.methods.published.xrpo import NoveltyAdvantage

    component: Any = getattr(run.part("refill"), "component", "")
    if component or any(run.is_a(key, GdpoAdvantage) for key in ADVANTAGES):
        yield "components"
    is_novelty = any(run.is_a(key, NoveltyAdvantage) for key in ADVANTAGES)
    if is_novelty or run.is_a("selection", BanditSelection):
        yield "logprobs"
    if Trait.READS_ANSWERS in run.part("sampler").traits:
        yield "answer"
