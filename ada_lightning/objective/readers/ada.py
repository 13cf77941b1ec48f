"""This project: the ``config.yaml`` that a run writes, or what ``ada train`` composes of the same arguments.

The sampler, the selection and the advantage are made as a run makes them, and asked what a run's first lines ask. Only
classes of this package's methods are made, of those that need no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from ada_lightning import __version__
from ada_lightning.analysis.statement.followed import followed, no_longer_exact
from ada_lightning.analysis.statement.inexact import depends_on_counts, has_fixed_numbers, summed_weights
from ada_lightning.analysis.statement.rules import draws_equal, of_whole_pools, rules_by_pass_rate
from ada_lightning.core.protocols import Advantage, Sampler, Selection, Trait
from ada_lightning.core.stopping.paths import end_probability, ends
from ada_lightning.core.stopping.posterior import PosteriorRule
from ada_lightning.core.stopping.rule import StoppingRule
from ada_lightning.methods.advantages import (
    BatchWhitenedAdvantage,
    ExactAdvantage,
    GroupNormalizedAdvantage,
    HistoryBaselineAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.catalog import entries
from ada_lightning.methods.objectives.support import supported_weight
from ada_lightning.methods.published.max_rl import MaxRlAdvantage
from ada_lightning.methods.published.raft import AcceptedAdvantage
from ada_lightning.objective.readers.words import not_known, shortens
from ada_lightning.objective.settings import Changes, Evidence, SettingError, Settings, Trainer, keys_of, spelled
from ada_lightning.objective.update import (
    Baseline,
    Clip,
    Filter,
    Keep,
    Missing,
    Reduction,
    Single,
    Sums,
    Term,
    Truncated,
    Update,
)
from ada_lightning.objective.weights import EVEN, FINE

_PARTS = ("sampler", "selection", "advantage")
_TARGET = re.compile(r"ada_lightning\.methods\.(?!estimators|gradient_norms)[\w.]+")
_REDUCTIONS = {
    "ConstantReduction": Reduction.CONSTANT,
    "PromptMeanReduction": Reduction.CONSTANT,
    "ResponseMeanReduction": Reduction.RESPONSE_MEAN,
    "TokenMeanReduction": Reduction.TOKEN_MEAN,
}
_TRUNCATED = {"grade": Truncated.KEPT, "exclude": Truncated.MASKED, "mask": Truncated.MASKED}
_OF_COUNTS = (
    AcceptedAdvantage,
    GroupNormalizedAdvantage,
    HistoryBaselineAdvantage,
    LeaveOneOutAdvantage,
    MaxRlAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
"""Advantages that right and wrong counts decide."""
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys((*_PARTS, "objective", "loss", "refill", "token_masks", "curriculum", "estimator")),
    "rollout.truncated": "grade",
    "rollout.max_staleness": 0,
    "rollout.sampling.max_new_tokens": None,
    "data.num_minibatches": 1,
    "data.epochs_per_rollout": 1,
    "data.prompts_per_step": None,
    "policy.max_grad_norm": 1.0,
    "optimizer": None,
}


def update(settings: Settings) -> Update:
    """Read what the run does.

    Raises:
        SettingError: a value that it does not take.
    """
    loss = _node(settings, "loss")
    kind = _REDUCTIONS.get(_name(loss.get("reduction")), Reduction.CONSTANT)
    refill = _name(_node(settings, "refill"))
    common: dict[str, Any] = {
        "baseline": Baseline.NONE,
        "filter": Filter(Keep.SPREAD, refills=True) if refill not in ("", "NoRefill") else None,
        "reduction": kind,
        "scope": "a step",
        "counts_masked": False,
        "single": Single.AS_OTHERS,
        "missing": Missing.DROPPED,
        "truncated": _TRUNCATED[settings.word("rollout.truncated", tuple(_TRUNCATED))],
        "clip": Clip(f"the rule of {_name(loss)}"),
        "terms": tuple(_terms(settings, loss)),
        "corrections": tuple(_corrections(settings, loss)),
        "batch_prompts": settings.known_whole("data.prompts_per_step", least=1),
        "updates_per_rollout": _updates(settings),
        "preference": _preference(settings),
        "max_response_tokens": settings.known_whole("rollout.sampling.max_new_tokens", least=1),
        "unknown": (not_known("The reward"),),
    }
    parts = {name: _made(_node(settings, name), settings.where) for name in _PARTS}
    missing = [name for name, part in parts.items() if part is None]
    if missing:
        reason = f"{', '.join(missing)}: made of what needs torch or of a class of one's own, which is not read."
        return Update(1, **common, undetermined=reason)
    if _name(loss) == "FlowRlLoss":
        return Update(1, **common, undetermined="FlowRlLoss goes for a distribution of responses, not for a pass rate.")
    return _of_parts(settings, common, parts, is_mean=_name(loss.get("reduction")) == "PromptMeanReduction")


def _of_parts(settings: Settings, common: dict[str, Any], parts: Mapping[str, Any], *, is_mean: bool) -> Update:
    sampler: Sampler = parts["sampler"]
    selection: Selection = parts["selection"]
    advantage: Advantage = parts["advantage"]
    kept = of_whole_pools(selection, advantage, sampler)
    is_mean = is_mean and has_fixed_numbers(sampler, kept)
    lines = followed(advantage, sampler, kept, is_equal=draws_equal(sampler, kept), is_mean=is_mean)
    if _changes(settings, sampler) or common["reduction"] is not Reduction.CONSTANT:
        lines = no_longer_exact(lines)
    text = lines[0].removeprefix("update: ")
    statement = f"{text[0].upper()}{text[1:]}."
    rules = [rule.quota if isinstance(rule, PosteriorRule) else rule for rule in rules_by_pass_rate(sampler, FINE)]
    inner = advantage.advantage if isinstance(advantage, BatchWhitenedAdvantage) else advantage
    weights = _weights(inner, kept, rules, is_mean=is_mean)
    if weights is None or not weights[FINE.index(EVEN)]:
        reason = f"More than right and wrong counts decides what trains, so no weight can be summed. {statement}"
        return Update(max(sampler.group_size, 1), **common, undetermined=reason)
    figures = [_figures(rule, rate) for rule, rate in zip(rules, FINE, strict=True) if rule is not None]
    responses = tuple(drawn for drawn, _ in figures)
    even = 1.0 if is_mean else responses[FINE.index(EVEN)]  # a mean over a prompt's responses is one already
    trains_equal = Trait.TRAINS_EQUAL_REWARDS in advantage.traits
    common |= {} if trains_equal else {"baseline": Baseline.GROUP_MEAN, "single": Single.ZERO}
    sums = Sums(FINE, tuple(weight / even for weight in weights), tuple(share for _, share in figures), responses)
    most = max(rule.n_max for rule in rules if rule is not None)
    notes = ["What a prompt draws depends on the others of its step: here on one of each pass rate."]
    return Update(
        max(most, 1),
        **common,
        sums=sums,
        statement=statement,
        notes=tuple(notes if len(set(rules)) > 1 else []),
    )


def _weights(
    advantage: Advantage, kept: Selection, rules: list[StoppingRule | None], *, is_mean: bool
) -> list[float] | None:
    if isinstance(advantage, ExactAdvantage):
        if any(rule is None for rule in rules):
            return None
        pairs = zip(FINE, rules, strict=True)
        return [supported_weight(advantage.objective, rule, rate) for rate, rule in pairs if rule is not None]
    if not depends_on_counts(advantage, kept) or not isinstance(advantage, _OF_COUNTS):
        return None
    return summed_weights(advantage, kept, rules, FINE, is_mean=is_mean)


def _figures(rule: StoppingRule, rate: float) -> tuple[float, float]:
    """Responses drawn, and the chance of a right and a wrong one."""
    drawn = share = 0.0
    for end in ends(rule):
        chance = end_probability(rule, end, rate)
        drawn += chance * sum(end)
        share += chance * (min(end) > 0)
    return drawn, share


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    constant = {"loss/reduction": "constant"} if _reduction(settings) is not Reduction.CONSTANT else {}
    uniform = {"curriculum": "uniform"} if _preference(settings) else {}
    if uniform:
        yield uniform
    if _name(_node(settings, "advantage")) == "ExactAdvantage":
        yield {"objective": "linear"} | uniform
    for changes in ({"advantage": "rloo"}, {"advantage": "exact", "objective": "linear"}):
        yield changes | uniform
        yield changes | constant | uniform


def _preference(settings: Settings) -> str:
    """Return what the curriculum does to the objective, as a run says it; empty where it does nothing."""
    node = _node(settings, "curriculum")
    made = _made(node, settings.where) if node else None
    if made is None:
        return f"{_name(node)} chooses prompts, in a way that is not read." if node else ""
    said = str(made.caveat()).removeprefix("curriculum: ")
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _reduction(settings: Settings) -> Reduction:
    return _REDUCTIONS.get(_name(_node(settings, "loss").get("reduction")), Reduction.CONSTANT)


def _changes(settings: Settings, sampler: Sampler) -> bool:
    """Whether something else of the run changes what the advantage follows."""
    loss = _node(settings, "loss")
    return bool(
        settings.whole("rollout.max_staleness")
        or settings.whole("data.num_minibatches", least=1) * settings.whole("data.epochs_per_rollout", least=1) > 1
        or loss.get("kl_coef")
        or loss.get("entropy_coef")
        or _node(settings, "token_masks")
        or settings.raw("rollout.truncated") == "mask"
        or sampler.budget_per_step
    )


def _terms(settings: Settings, loss: Mapping[str, Any]) -> Iterator[Term]:
    for key, name in (("kl_coef", "KL to the reference model, in the loss"), ("entropy_coef", "entropy bonus")):
        if isinstance(value := loss.get(key), int | float) and value:
            yield Term(name, float(value), moves_equal=True)
    decay = _node(settings, "optimizer").get("weight_decay")
    if isinstance(decay, int | float) and decay:
        yield Term("weight decay", float(decay), moves_equal=True)


def _corrections(settings: Settings, loss: Mapping[str, Any]) -> Iterator[str]:
    cap = loss.get("importance_cap")
    if isinstance(cap, int | float) and cap > 0:
        yield f"The ratio of trainer to engine multiplies tokens ({_name(loss.get('importance'))}, at most {cap:g})."
    if lag := settings.whole("rollout.max_staleness"):
        yield f"max_staleness = {lag}: responses are of the policy {lag} steps before."
    norm = settings.raw("policy.max_grad_norm")
    if isinstance(norm, int | float) and norm < float("inf"):
        yield shortens("policy.max_grad_norm", norm)


def _updates(settings: Settings) -> int:
    return settings.whole("data.num_minibatches", least=1) * settings.whole("data.epochs_per_rollout", least=1)


def _node(settings: Settings, name: str) -> dict[str, Any]:
    """Return what a part is made of; an option's name is looked up as ``ada train`` does."""
    value = settings.raw(name)
    if isinstance(value, str):
        entry = entries().get(f"{name}/{value}")
        if entry is None or not isinstance(entry.node, Mapping):
            raise SettingError(f"{settings.where}: there is no {name}={value}; `ada describe {name}` lists them")
        value = dict(entry.node.get(name, entry.node))
    node = _nested(value, name) if isinstance(value, Mapping) else {}
    chosen = settings.raw("objective")
    if name == "advantage" and "objective" in node and (isinstance(chosen, str) or isinstance(node["objective"], str)):
        node["objective"] = _node(settings, "objective") or dict(entries()["objective/log"].node)
    return node


def _nested(flat: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Undo dotted keys below a name."""
    found: dict[str, Any] = {}
    for key, value in flat.items():
        inner, place = found, key.removeprefix(f"{name}.").split(".")
        for part in place[:-1]:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise SettingError(f"{name}: {spelled(key)} stands inside of a value")
        inner[place[-1]] = value
    return found


def _name(node: Any) -> str:
    """Return the class that a node would make; empty for none."""
    target = node.get("_target_", "") if isinstance(node, Mapping) else ""
    return str(target).rpartition(".")[2]


def _made(node: Any, where: str) -> Any:
    """Make a part of this package's methods; None where it is made of something else.

    Raises:
        SettingError: it refuses its settings.
    """
    if not isinstance(node, Mapping):
        return node
    if not _TARGET.fullmatch(str(node.get("_target_"))):
        return None
    path, _, name = str(node["_target_"]).rpartition(".")
    try:
        kind = getattr(import_module(path), name, None)
    except ImportError:
        kind = None
    if not isinstance(kind, type) or not kind.__module__.startswith("ada_lightning."):
        return None
    arguments = {key: _made(value, where) for key, value in node.items() if key != "_target_"}
    if any(arguments[key] is None and isinstance(node[key], Mapping) for key in arguments):
        return None
    try:
        return kind(**arguments)
    except (TypeError, ValueError) as error:
        raise SettingError(f"{where}: {name} refuses its settings: {error}") from None


TRAINER = Trainer(
    name="ada",
    title="this project",
    version=__version__,
    evidence=Evidence.OWN,
    defaults=DEFAULTS,
    no_effect=keys_of("ada"),
    update=update,
    remedies=remedies,
    command="ada train ... {changes}",
    marks=frozenset({"sampler._target_", "selection._target_", "advantage._target_"}),
    package="ada_lightning",
)
