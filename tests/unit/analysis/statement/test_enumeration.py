"""Every method that the checks let pass: what its run prints at the start, against the sum over all that can happen.

Composed are all advantages, samplers and selections of ``conf/`` (and samplers of one's own), in small sizes, for each
``rollout.truncated``. What is printed as exact must be so to 1e-9, whatever is believed of a prompt; what is not must
be off, and where it is exact without a setting, a line names the setting.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ada_lightning.analysis.statement import describe_update, inexact
from ada_lightning.analysis.statement.rules import contradiction, rule_alone
from ada_lightning.config.composition import composed, own_hydra
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.config.keys import locate
from ada_lightning.config.method_rules import METHOD_RULES
from ada_lightning.config.update import cutting_errors, target_errors
from ada_lightning.config.view import ConfigView
from ada_lightning.core.protocols import Trait
from ada_lightning.core.records import Belief, ResponseGroup
from ada_lightning.core.step_records import StepSettings
from ada_lightning.core.stopping import CappedRule, PilotRule, StoppingRule
from ada_lightning.methods.catalog import names
from ada_lightning.methods.objectives.support import supported_weight
from ada_lightning.methods.sampling.blocks import DRAWS_PER_RESPONSE
from ada_lightning.methods.sampling.planned import OneShotSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.losses import (
    ClippedPolicyLoss,
    ConstantReduction,
    PromptMeanReduction,
    SequenceRejection,
    TokenRejection,
)
from tests.unit.analysis.statement.enumerated import End, Symbol, ends, probabilities, scores, weights

pytestmark = pytest.mark.xdist_group(__name__)  # what is sampled is enumerated once
SAMPLERS = {
    "uniform": "group_size=4",
    "first_visit": "group_size=4 num_first=5",
    "balance": "k_pos=1 k_neg=1 samples_per_round=2 n_max=6 group_size=2",
    "balance_posterior": "k_pos=1 k_neg=1 samples_per_round=2 n_max=4 group_size=2 give_up.explore_ratio=0.25",
    "positive": "k_pos=1 samples_per_round=2 n_max=6 group_size=2",
    "positive_posterior": "k_pos=1 samples_per_round=1 n_max=4 group_size=2 give_up.explore_ratio=0.25",
    "pilot_commit": "num_pilot=4 num_commit=1 min_rate=0.2 max_rate=0.6 group_size=5",
    "speed": "num_screen=4 num_continue=1 group_size=5",
    "dars_et": "num_pilot=3 n_max=6",
    "dars_hw": "num_pilot=3 n_max=6",
    "estimated": "responses_per_prompt=3 n_min=2 n_max=4",
    "vip": "responses_per_prompt=4 n_min=3 n_max=6",
    "knapsack": "responses_per_prompt=3 n_min=2 n_max=5 min_seen=1",
    "coba": "responses_per_prompt=3 n_min=2 n_max=5",
    "gvm": "num_pilot=2 responses_per_prompt=3 n_max=4",
    "xrpo": "num_pilot=4 responses_per_prompt=5 n_max=6 num_rounds=1",
    "pruning": "group_size=4",
    "cut": "group_size=2 num_tokens=1",
    "cgrpo": "budgets=[4,5] group_size=5 num_calibration=1",
    "optpo": "samples_per_round=2 n_max=4",
    "spread": "samples_per_round=2 n_max=4 group_size=2",
}
"""Small sizes by name."""
OWN = {"contrast": "Contrast", "contrast between blocks": "ContrastBetweenBlocks"}
"""Samplers that nobody shipped, by their rules."""
SMALLER = {
    "balance": "n_max=4",
    "balance_posterior": "n_max=3 samples_per_round=1",
    "positive": "n_max=4",
    "speed": "num_screen=2 num_continue=1 group_size=3",
    "positive_posterior": "n_max=3",
    "pilot_commit": "num_pilot=2 num_commit=1 group_size=3 min_rate=0.4",
    "dars_et": "num_pilot=2 n_max=4",
    "dars_hw": "num_pilot=2 n_max=4",
    "first_visit": "group_size=3 num_first=4",
    "uniform": "group_size=3",
    "pruning": "group_size=3",
}
"""Where a response may be truncated too, and what is would be drawn anew."""
WITHOUT = {"inverse_rl": "its rewards are learned from texts, and p is the rate of nothing that could be summed over"}
GROUPS = {"gvm": ["sampler/gradient_norm=constant"]}
REMEMBERED = {
    "pruning": {"seen": ["p0", "p1", "p2"]},
    "balance_posterior": {"give_up": {"num_resolved": 300.0, "num_drawn": 1000.0}},
    "positive_posterior": {"give_up": {"num_resolved": 400.0, "num_drawn": 1000.0}},
    "cgrpo": {"thresholds": [1.0, 0.5], "scores": [], "steps_left": 50},
}
"""What a sampler has learned in steps before. The statement is printed before."""
ADVANTAGES = {
    **{f"exact {objective}": ("exact", f"objective={objective}") for objective in ("linear", "log", "power", "logit")},
    "exact pass_at_k": ("exact", "objective=pass_at_k objective.k=2"),
    "stratified": ("stratified", ""),
    "stratified, counted": ("stratified", "pass_rate._target_=PathCountingRate"),
    "official": ("official", ""),
    "official, posterior": ("official", "pass_rate._target_=PosteriorRate"),
    "paper_v3": ("paper_v3", ""),
    "weighted_leave_one_out": ("weighted_leave_one_out", ""),
    "weighted, first round": ("weighted_leave_one_out", "baseline._target_=FirstRoundRate"),
    **{
        name: (name, "")
        for name in (
            "accepted", "batch_whitened", "dpo", "dr_grpo", "grpo", "history_baseline", "history_whitened", "ipo",
            "max_rl", "novelty", "reinforce_plus_plus", "reward_distillation", "rloo", "rounded_history",
            "shrinkage_baseline", "representation_preference",
        )
    },
    "gdpo": ("gdpo", "~advantage.weights.format"),
}  # fmt: skip
SELECTIONS = {
    "all": "", "balanced": "group_size=2", "bandit": "group_size=2", "largest_advantage": "",
    "largest_advantage_batch": "normalize_std=false", "max_variance": "group_size=2", "positives": "", "pruning": "",
    "quantile": "group_size=2 num_strata=2", "rarer_class": "max_per_class=1", "resolved": "", "seen": "",
    "stratified": "group_size=2 thresholds=[0.5]", "thinned": "",
}  # fmt: skip
MORE_THAN_SAID = {
    "stratified": "the logarithm's f'(p) p q = q is linear in p, so that an unbiased estimate of p does no harm",
    "stratified, counted": "the same",
    "weighted, first round": "where the first round is all there is, its own share of each baseline is a factor",
    "representation_preference": "it goes by the policy's states, which are made up here",
    "reward_distillation": "it goes by the policy's log-ratios, which are made up here",
}
"""Advantages that happen to be exact. So is a mean over what is kept where all groups that weigh anything are equal."""
SIZES = {"sampler": SAMPLERS, "selection": SELECTIONS}
REDUCTIONS = {"constant": ConstantReduction(token_scale=8), "prompt_mean": PromptMeanReduction(token_scale=8)}
BELIEFS = (
    Belief(),
    Belief(2.0, 18.0, num_seen=18, num_seen_positive=1, is_seen=True),
    Belief(6.0, 2.0, num_seen=6, num_seen_positive=5, is_seen=True),
)
RIGHT, WRONG = Symbol(is_right=True), Symbol(is_right=False)
CUT = Symbol(is_right=False, is_truncated=True, num_tokens=3)
SYMBOLS = {
    "grade": (RIGHT, WRONG),
    "zero": (RIGHT, Symbol(is_right=True, is_truncated=True)),
    "exclude": (RIGHT, WRONG, CUT),
    "mask": (RIGHT, WRONG, Symbol(is_right=True, is_truncated=True)),
}
POLICIES = {
    2: ((0.3, 0.7), (0.6, 0.4), (0.85, 0.15)),
    3: ((0.2, 0.5, 0.3), (0.35, 0.25, 0.4), (0.6, 0.2, 0.2)),
}


KEPT: dict[str, dict[Any, Any]] = {name: {} for name in SELECTIONS}
"""By selection, the coins that each end gives it: they are the same for every advantage."""


class Parts(ConfigView):
    """A setup of parts that others share, made once; its values are plain."""

    def __init__(self, nodes: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
        self.cfg, self._nodes, self._parts = nodes, nodes, parts

    def value(self, key: str) -> Any:
        node: Any = self._nodes
        for name in key.split("."):
            node = node.get(name) if isinstance(node, Mapping) else None
        return node

    def names(self, key: str) -> list[str]:
        node = self.value(key)
        return list(node) if isinstance(node, Mapping) else []

    def kind(self, key: str) -> type:
        target = self.value(f"{key}._target_")
        return _located(target) if target else object

    def part(self, key: str) -> Any:
        found, *rest = key.split(".")
        part = self._parts.get(found)
        for name in rest:
            part = getattr(part, name, None)
        return part


@lru_cache
def _located(target: str) -> type:
    return locate(target)


@cache
def nodes(group: str, name: str) -> dict[str, Any]:
    """A part's node, with all that it refers to."""
    if group == "sampler" and name in OWN:
        module = "tests.unit.analysis.statement.enumerated"
        rule = {"_target_": "hydra.utils.get_class", "path": f"{module}.{OWN[name]}"}
        return {"sampler": {"_target_": f"{module}.OwnSampler", "rule": rule}}
    name, _, is_smaller = name.partition(", ") if group == "sampler" else (name, "", "")
    option, more = ADVANTAGES[name] if group == "advantage" else (name, SIZES[group][name])
    more += f" {SMALLER[name]}" if is_smaller else ""
    rates = "_target_=ada_lightning.methods.pass_rates."
    changes = [each if each[0] in "~o" else f"{group}.{each}" for each in more.replace("_target_=", rates).split()]
    with own_hydra(), initialize_config_dir(str(CONFIG_DIR), version_base="1.3"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the order of a file that stands alone
        cfg = compose(f"{group}/{option}", [*GROUPS.get(name, []), *changes])
    plain = OmegaConf.to_container(OmegaConf.merge({"seed": 0}, cfg), resolve=True)
    return {key: node for key, node in plain.items() if key != "seed"}


@cache
def part(group: str, name: str) -> Any:
    made = instantiate(nodes(group, name)[group])
    if getattr(made, "needs_reference", False):
        made.connect(
            lambda group: [0.3 if kept.response.is_positive else -0.2 for kept in group.kept],
            lambda group: [[float(kept.response.sample_index)] for kept in group.kept],
        )
    return made


@cache
def others() -> dict[str, Any]:
    """All that is no part of a method."""
    cfg = composed(["+experiment=grpo", "reward=exact_match"])
    names = ("data", "rollout", "loss", "estimator", "refill", "curriculum", "token_masks", "trainer", "environment")
    return {key: OmegaConf.to_container(cfg[key], resolve=True) for key in names if cfg[key] is not None}


@cache
def made_others() -> dict[str, Any]:
    return {key: instantiate(others()[key]) for key in ("estimator", "refill", "curriculum", "loss")}


@cache
def passes(sampler: str, advantage: str, selection: str, reduction: str) -> bool:
    chosen = nodes("sampler", sampler) | nodes("advantage", advantage) | nodes("selection", selection)
    plain = others() | chosen
    target = f"ada_lightning.training.losses.{type(REDUCTIONS[reduction]).__name__}"
    plain |= {"loss": plain["loss"] | {"reduction": {"_target_": target, "token_scale": 8}}}
    made = {"sampler": part("sampler", sampler), "advantage": part("advantage", advantage)}
    run = Parts(plain, made_others() | made | {"selection": part("selection", selection)})
    return not any(message for rule in (*METHOD_RULES, cutting_errors, target_errors) for message in rule(run))


HEADLINE = re.compile(
    r"update: increases (?:the mean over prompts of f\(p\) = (?P<f>[^,:]+?) \(p: pass rate\)|the mean reward), exactly"
    r"(?: as far as \d+ responses can see: (?P<part>[^,]+?))?(?:, times (?P<times>\(n-1\)/n|\d+/\d+).*)?"
    r"(?:, for any number of responses of a prompt)?(?:, without a baseline: .*|: advantage = reward minus .*)?"
)
WEIGHTS = {
    None: lambda p: 1.0, "p": lambda p: 1.0, "log p": lambda p: 1 / p, "p^0.5": lambda p: 0.5 / math.sqrt(p),
    "logit(p)/2 - p": lambda p: 0.5 / (p * (1 - p)) - 1, "1 - (1-p)^2": lambda p: 2 * (1 - p),
}  # fmt: skip
OWN_SERIES = ("the history of a prompt sets its number", "prompts that are given up for their history")


@dataclass(frozen=True)
class Sampled:
    """A prompt under a sampler, with all its ends, and their probabilities by policy."""

    belief: Belief
    ends: list[End]
    chances: list[np.ndarray]

    def rules(self, at: int) -> dict[StoppingRule, float]:
        """Return the probability of each rule that it may get, before anything cut it off."""
        found: dict[StoppingRule, float] = {}
        longest = max((end.pool.rule for end in self.ends if end.pool.rule), key=lambda rule: rule.n_max, default=None)
        for end, chance in zip(self.ends, self.chances[at], strict=True):
            rule = end.pool.rule.inner if isinstance(end.pool.rule, CappedRule) else end.pool.rule
            rule = longest if isinstance(rule, PilotRule) else rule
            if rule is not None:  # a prompt that is left out by chance gets none
                found[rule] = found.get(rule, 0.0) + chance
        return {rule: chance / sum(found.values()) for rule, chance in found.items()}


def policies(truncated: str) -> list[np.ndarray]:
    return [np.array(policy) for policy in POLICIES[len(SYMBOLS[truncated])]]


@cache
def sampled(sampler: str, truncated: str) -> list[Sampled]:
    found = []
    settings = StepSettings(seed=0, truncated=truncated)
    for target, belief in enumerate(BELIEFS):
        made = part("sampler", sampler).frozen()
        if (name := sampler.partition(",")[0]) in REMEMBERED:
            made.load_state_dict(REMEMBERED[name])
        all_ends = ends(made, BELIEFS, target, SYMBOLS[truncated], settings)
        found.append(Sampled(belief, all_ends, [probabilities(all_ends, policy) for policy in policies(truncated)]))
    return found


def gradient(truncated: str, policy: np.ndarray, *, accepted: bool) -> tuple[float, np.ndarray]:
    """The pass rate of a policy, and its gradient."""
    symbols, of_symbols = SYMBOLS[truncated], scores(policy)
    is_right = np.array([symbol.is_right and not (accepted and symbol.is_truncated) for symbol in symbols])
    rate, slope = policy[is_right].sum(), policy[is_right] @ of_symbols[is_right]
    if truncated == "exclude" and not accepted:
        is_finished = np.array([not symbol.is_truncated for symbol in symbols])
        finished, of_finished = policy[is_finished].sum(), policy[is_finished] @ of_symbols[is_finished]
        rate, slope = rate / finished, (slope - rate / finished * of_finished) / finished
    return rate, slope


def statement(sampler: str, advantage: str, selection: str, reduction: str = "constant", **settings: Any) -> list[str]:
    of_loss = {"importance": settings.pop("importance")} if "importance" in settings else {}
    return describe_update(
        advantage=part("advantage", advantage),
        sampler=part("sampler", sampler),
        selection=part("selection", selection),
        loss=ClippedPolicyLoss(reduction=REDUCTIONS[reduction], **of_loss),
        **({"num_minibatches": 1, "max_grad_norm": math.inf, "truncated": "grade"} | settings),
    )


said = cache(statement)
"""Both other ways to treat truncated responses compare theirs with the one that grades them."""


@pytest.fixture(scope="module", autouse=True)
def _sums_a_rule_once():
    """The table of a statement is the same for each ``rollout.truncated`` and for each sampler with the same rule."""
    known: dict[str, list[float]] = {}
    expected_weights = inexact.expected_weights

    def expected_once(*args):
        if (key := repr(args)) not in known:
            known[key] = expected_weights(*args)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inexact, "expected_weights", expected_once)
        yield


@dataclass(frozen=True)
class Cell:
    """One method, its statement and its update."""

    sampler: str
    advantage: str
    selection: str
    reduction: str
    truncated: str
    lines: list[str]
    prompts: list[Sampled]
    known: dict[Any, Any]
    """Ends that were weighed before."""
    kept: dict[Any, Any]
    """What the selection keeps of them, whatever is made of it."""

    def __str__(self) -> str:
        return " / ".join((self.sampler, self.advantage, self.selection, self.reduction, self.truncated, self.lines[0]))

    @property
    def is_said_exact(self) -> bool:
        return "exact" in self.lines[0]

    @property
    def is_of_accepted(self) -> bool:
        return any("right and end by themselves" in line for line in self.lines)

    def weight(self, prompt: Sampled, at: int, rate: float) -> float:
        """``f'(p)``, as far as the prompt's responses can see, as it is said; else of what was meant."""
        said = HEADLINE.fullmatch(self.lines[0])
        objective = getattr(part("advantage", self.advantage), "objective", None)
        if self.is_said_exact and (not said or objective is None):
            assert said, self
            if said["part"]:
                return float(eval(said["part"].removeprefix("f'(p) = ").replace("^", "**"), {"p": rate}))
            share = 1.0
            if said["times"] == "(n-1)/n":
                (rule,) = prompt.rules(at)
                share = 1 - 1 / rule.n_max
            return share * WEIGHTS[said["f"]](rate)
        if objective is None:
            return 1.0
        if self.truncated == "exclude":  # as far as those see that end by themselves
            return self._seen_by_finished(prompt, at, rate, objective)
        is_of_history = any(words in line for line in self.lines for words in OWN_SERIES)
        if self.is_said_exact and not is_of_history:
            if said["part"] is None:
                return WEIGHTS[said["f"]](rate)
            if "terms" not in said["part"]:
                return float(eval(said["part"].removeprefix("f'(p) = ").replace("^", "**"), {"p": rate}))
        rules = prompt.rules(at)
        return sum(chance * supported_weight(objective, rule, rate) for rule, chance in rules.items())

    def _seen_by_finished(self, prompt: Sampled, at: int, rate: float, objective: Any) -> float:
        finished = float(sum(policies("exclude")[at][:2]))
        total = 0.0
        for rule, chance in prompt.rules(at).items():
            most = DRAWS_PER_RESPONSE * rule.n_max
            for number in range(most + 1):
                of_number = math.comb(most, number) * finished**number * (1 - finished) ** (most - number)
                seen = rule if number >= rule.n_max else rule.capped(number)
                total += chance * of_number * (supported_weight(objective, seen, rate) if number else 0.0)
        return total

    def factors(self) -> Iterator[float | None]:
        """Yield update over ``f'(p) grad p``, by prompt and policy; None where one is not along the other."""
        for prompt, at, policy, weights_K in self.of_symbols():
            rate, slope = gradient(self.truncated, policy, accepted=self.is_of_accepted)
            wanted = self.weight(prompt, at, rate) * slope
            update = weights_K @ scores(policy)
            factor = float(update @ wanted / (wanted @ wanted)) if wanted.any() else 0.0
            if np.abs(update - factor * wanted).max() > 1e-9:
                yield None
            elif wanted.any():  # else there are fewer responses than the objective has terms of
                yield factor

    def unit(self) -> float:
        """By what a sum, or a mean, over a prompt's responses is more than ``f'(p) grad p``."""
        rules = self.prompts[0].rules(0)
        size = next(iter(rules)).n_max
        is_sum = self.advantage.startswith(("exact", "weighted"))
        times = (HEADLINE.fullmatch(self.lines[0]) or {"times": None})["times"]
        share = float(Fraction(times)) if times and times != "(n-1)/n" else 1.0
        return share * {(True, "constant"): 1.0, (True, "prompt_mean"): 1 / size, (False, "constant"): size,
                        (False, "prompt_mean"): 1.0}[is_sum, self.reduction]  # fmt: skip

    def of_symbols(self) -> Iterator[tuple[Sampled, int, np.ndarray, np.ndarray]]:
        """Yield what each symbol weighs, prompt by prompt and policy by policy."""
        chosen, rule = part("selection", self.selection), part("advantage", self.advantage)
        kind = list(REDUCTIONS).index(self.reduction)
        for prompt in self.prompts:
            of_ends_EK = weights(prompt.ends, chosen, rule, len(SYMBOLS[self.truncated]), self.known, self.kept)[kind]
            for at, policy in enumerate(policies(self.truncated)):
                yield prompt, at, policy, prompt.chances[at] @ of_ends_EK

    def is_uncentred(self) -> bool:
        """Whether what a prompt weighs in all is not 0 on average."""
        return any(abs(weights_K.sum()) > 1e-9 for *_, weights_K in self.of_symbols())

    def follows_the_old_weight_in_the_new_direction(self) -> bool:
        """Whether ratios of whole responses make it ``f'(p_old) grad p_new``."""
        newer = np.array([0.45, 0.55])
        _, slope = gradient("grade", newer, accepted=False)
        return all(
            np.allclose(
                (weights_K * newer / policy) @ scores(newer),
                self.unit() * self.weight(prompt, at, policy[0]) * slope,
                rtol=0,
                atol=1e-9,
            )
            for prompt, at, policy, weights_K in self.of_symbols()
        )


def is_exact(cell: Cell) -> bool:
    found: list[float] = []
    for factor in cell.factors():
        found += [] if factor is None else [factor]
        if factor is None or max(found) - min(found) >= 1e-9:
            return False  # the first two policies tell most
    return bool(found) and abs(found[0]) > 1e-9


def is_more_than_said(cell: Cell) -> bool:
    """Whether a method is known to be exact here without saying so."""
    plans = isinstance(part("sampler", cell.sampler), OneShotSampler)
    if plans and len({rule for prompt in cell.prompts for rule in prompt.rules(0)}) == 1:
        return True  # these three beliefs happen to be planned alike
    return cell.advantage in MORE_THAN_SAID or (cell.advantage.startswith("exact") and cell.reduction == "prompt_mean")


def small(sampler: str, truncated: str) -> str:
    return sampler if truncated == "grade" or sampler not in SMALLER else f"{sampler}, smaller"


def cells(advantage: str, truncated: str) -> Iterator[Cell]:
    """Yield every method with this advantage that the checks let pass."""
    known: dict[str, dict[Any, Any]] = {name: {} for name in SELECTIONS}
    for sampler in (*(small(name, truncated) for name in SAMPLERS), *OWN):
        prompts = None
        for selection in SELECTIONS:
            keeps_all = Trait.KEEPS_WHAT_THERE_IS in part("selection", selection).traits or selection == "seen"
            reductions = [name for name in REDUCTIONS if name == "constant" or keeps_all]  # others are ratios
            reductions = [name for name in reductions if passes(sampler, advantage, selection, name)]
            if not reductions:
                continue
            if truncated != "grade" and rule_alone(part("sampler", sampler)) is None:
                for reduction in reductions:  # nothing can be exact under it
                    assert "exact" not in said(sampler, advantage, selection, reduction, truncated=truncated)[0]
                continue
            prompts = prompts or sampled(sampler, truncated)
            counted = [prompt for prompt in prompts if selection != "seen" or prompt.belief.is_seen]
            for reduction in reductions:
                lines = said(sampler, advantage, selection, reduction, truncated=truncated)
                seen = known[selection], KEPT[selection]
                yield Cell(sampler, advantage, selection, reduction, truncated, lines, counted, *seen)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("truncated", ["grade", "exclude", "mask"])
@pytest.mark.parametrize("advantage", ADVANTAGES)
def test_exact_is_printed_where_the_sum_says_so_and_nowhere_else(advantage, truncated):
    wrong = []
    for cell in cells(advantage, truncated):
        is_exact_otherwise = False
        if truncated != "grade":
            otherwise = said(cell.sampler, advantage, cell.selection, cell.reduction)
            is_exact_otherwise = "exact" in otherwise[0]
        if cell.is_said_exact:
            factors = list(cell.factors())
            if None in factors or factors != pytest.approx([cell.unit()] * len(factors), abs=1e-9):
                wrong.append(f"is said exact: {cell}: {factors}")
        elif (truncated == "grade" or is_exact_otherwise) and is_exact(cell) and not is_more_than_said(cell):
            wrong.append(f"is exact: {cell}")
        if is_exact_otherwise and not any(f"rollout.truncated={truncated}" in line for line in cell.lines):
            wrong.append(f"names no rollout.truncated: {cell}")
    assert wrong == []


def test_every_part_is_composed_and_most_claims_are_made():
    """None is left out, and a statement that promised nothing would not pass."""
    for group, listed in (("sampler", SAMPLERS | WITHOUT), ("selection", SELECTIONS)):
        assert set(listed) == {*names(CONFIG_DIR, group)}
    assert {option for option, _ in ADVANTAGES.values()} == {*names(CONFIG_DIR, "advantage")}
    exact = {
        (sampler, advantage)
        for sampler in (*SAMPLERS, *OWN)
        for advantage in ADVANTAGES
        if passes(sampler, advantage, "all", "constant") and "exact" in said(sampler, advantage, "all")[0]
    }
    by_rule = {name for name in SAMPLERS if rule_alone(part("sampler", name)) is not None}
    of_objective = {name for name in ADVANTAGES if name.startswith("exact")}
    assert {(sampler, advantage) for sampler, advantage in exact if advantage in of_objective} == {
        (sampler, advantage)
        for sampler in (by_rule - {"cut"}) | {"contrast between blocks"}
        for advantage in of_objective
    }
    of_mean = {"official", "dr_grpo", "rloo", "accepted", "history_baseline", "rounded_history", "shrinkage_baseline"}
    assert {advantage for sampler, advantage in exact if sampler == "uniform"} == of_objective | of_mean | {
        "weighted_leave_one_out",
        "max_rl",
    }
    assert {advantage for sampler, advantage in exact if sampler == "cut"} == {"history_baseline", "rounded_history"}


@pytest.mark.parametrize("reduction", ["constant", "prompt_mean"])
@pytest.mark.parametrize("advantage", ["accepted", "dr_grpo", "exact linear", "history_baseline", "max_rl", "rloo"])
def test_the_scale_of_an_exact_update_is_that_of_its_lines(advantage, reduction):
    """What the first line says, times what a line says of the reduction."""
    lines = said("uniform", advantage, "all", reduction)
    cell = Cell("uniform", advantage, "all", reduction, "grade", lines, sampled("uniform", "grade"), {}, KEPT["all"])
    times = (HEADLINE.fullmatch(lines[0]) or {"times": None})["times"]
    found = re.search(r"the update is (\d+ times|1/\d+) as large", " ".join(lines))
    scale = Fraction(times or 1) * Fraction(found[1].removesuffix(" times") if found else 1)
    assert list(cell.factors()) == pytest.approx([float(scale)] * len(list(cell.factors())))
    assert bool(found) == ((advantage == "exact linear") == (reduction == "prompt_mean"))


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name not in ("cut", "cgrpo", "optpo")])
def test_a_truncated_response_that_counts_as_wrong_is_one_that_is_wrong(sampler):
    """So ``rollout.truncated=zero`` is ``grade`` with another p; but where lengths or answers count."""
    graded, zeroed = (
        [{end.looks: sorted(end.ways) for end in prompt.ends} for prompt in sampled(sampler, truncated)]
        for truncated in ("grade", "zero")
    )
    assert graded == zeroed
    for advantage in ("rloo", "history_baseline", "accepted"):
        assert said(sampler, advantage, "all") == said(sampler, advantage, "all", truncated="zero")


def test_a_rule_that_holds_inside_a_block_is_refused():
    assert not any(passes("contrast", advantage, "all", "constant") for advantage in ADVANTAGES)
    assert contradiction(part("sampler", "contrast")).endswith("inside of them, at 1 right and 2 wrong")
    assert not any(contradiction(part("sampler", name)) for name in (*SAMPLERS, "contrast between blocks"))
    (prompt, *_) = sampled("contrast", "grade")
    pools = [end.pool for end in prompt.ends if min(end.pool.num_positive, end.pool.num_negative) > 1]
    rule = part("advantage", "exact linear")
    for pool in pools:
        with pytest.raises(ValueError, match="no path of its rule Contrast leads"):
            rule.of_group(ResponseGroup(pool, AllSelection().select(pool)))
    assert pools


@pytest.mark.parametrize(
    "advantage",
    ["accepted", "dr_grpo", "exact linear", "history_baseline", "rloo", "rounded_history", "shrinkage_baseline"],
)
@pytest.mark.parametrize("sampler", ["uniform", "balance"])
def test_a_baseline_that_pushes_responses_to_end_is_said_to(sampler, advantage):
    """What is left of a prompt weighs something in all, so that the rate of ending itself is pulled."""
    name = small(sampler, "exclude")
    lines = said(name, advantage, "all", truncated="exclude")
    cell = Cell(name, advantage, "all", "constant", "exclude", lines, sampled(name, "exclude"), {}, {})
    says_so = any("pushes responses to end" in line for line in lines)
    assert says_so == (cell.is_uncentred() and not cell.is_of_accepted)


@pytest.mark.parametrize("advantage", ADVANTAGES)
def test_older_policies_and_later_updates_take_the_promise_back(advantage):
    """Whole responses' ratios keep the old weight and the new direction; without them an uncentred baseline adds to it.

    Responses are single tokens here, so only what is said of ratios of whole responses can be held against sums.
    """
    whole, none = {"importance": SequenceRejection(floor=0.1)}, {"importance": TokenRejection()}
    names = [name for name in ("uniform", "balance", "estimated") if passes(name, advantage, "all", "constant")]
    for sampler in names:
        lines = statement(sampler, advantage, "all")
        cell = Cell(sampler, advantage, "all", "constant", "grade", lines, sampled(sampler, "grade"), {}, KEPT["all"])
        for settings, words in (
            ({"max_staleness": 1} | whole, "rollout.max_staleness = 1"),
            ({"num_minibatches": 2}, "data.num_minibatches = 2"),
            ({"epochs_per_rollout": 2}, "data.epochs_per_rollout = 2"),
        ):
            bent = statement(sampler, advantage, "all", **settings)
            assert "exact" not in bent[0]
            assert any(words in line for line in bent[1:])
        says_baseline = any(
            "no longer cancels" in line for line in statement(sampler, advantage, "all", max_staleness=1, **none)
        )
        is_whitened = "whitened" in advantage  # over the one prompt here, and over many in a run
        assert says_baseline == cell.is_uncentred() or is_whitened
        if cell.is_said_exact:
            assert cell.follows_the_old_weight_in_the_new_direction()
