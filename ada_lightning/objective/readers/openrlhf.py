"""OpenRLHF's PPO trainer: the command ``python3 -m openrlhf.cli.train_ppo_ray``.

Held against OpenRLHF 0.11.2: ``cli/train_ppo_ray.py`` (options), ``trainer/ppo_utils/experience_maker.py``
(advantages), ``trainer/ppo_utils/samples_generator.py`` (the filter), ``models/loss.py`` and ``utils/loss_utils.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ada_lightning.objective.readers.words import clipped, not_known, other_distribution, shortens
from ada_lightning.objective.settings import Changes, Evidence, Settings, Trainer, as_option, keys_of
from ada_lightning.objective.update import (
    Baseline,
    Clip,
    Divisor,
    Filter,
    Keep,
    Missing,
    Reduction,
    Single,
    Spread,
    Term,
    Truncated,
    Update,
    Whitening,
)

ESTIMATORS: dict[str, tuple[Baseline, Spread, bool]] = {
    "reinforce": (Baseline.NONE, Spread.NONE, True),
    "rloo": (Baseline.OTHERS_MEAN, Spread.NONE, False),
    "reinforce_baseline": (Baseline.GROUP_MEAN, Spread.NONE, True),
    "group_norm": (Baseline.GROUP_MEAN, Spread.GROUP, False),
    "dr_grpo": (Baseline.GROUP_MEAN, Spread.NONE, False),
    "flash_reinforce": (Baseline.BATCH_MEAN, Spread.NONE, False),
}
"""Those that need no critic: baseline, spread, whether advantages are whitened over the rollout."""
AGGREGATIONS = ("token-mean", "seq-mean-token-mean")
LOSSES = ("ppo", "gspo")
_ADVANTAGE = "algo.advantage."
_N = "rollout.n_samples_per_prompt"
DEFAULTS: dict[str, Any] = {
    _ADVANTAGE + "estimator": "gae",
    _ADVANTAGE + "no_std_norm": False,
    _ADVANTAGE + "gamma": 1,
    _ADVANTAGE + "is_correction_level": "off",
    _ADVANTAGE + "is_correction_mode": "mask",
    _ADVANTAGE + "is_correction_gating": "ratio",
    _ADVANTAGE + "is_correction_threshold": [0.5, 5.0],
    "algo.kl.init_coef": 0.01,
    "algo.kl.target": None,
    "algo.kl.use_loss": False,
    "algo.kl.estimator": "k1",
    "algo.kl.unbiased_gradient": False,
    "algo.dynamic_filtering_enable": False,
    "algo.dynamic_filtering_range": (0, 1),
    "actor.loss_agg_mode": "token-mean",
    "actor.policy_loss_type": "ppo",
    "actor.eps_clip": 0.2,
    "actor.eps_clip_low_high": None,
    "actor.dual_clip": None,
    "actor.entropy_coef": None,
    "actor.aux_loss_coef": 0,
    "actor.adam.weight_decay": 0.0,
    "actor.max_norm": 1.0,
    "reward.clip_range": (-10, 10),
    "reward.overlong_buffer_len": None,
    "reward.overlong_penalty_factor": 1,
    "reward.stop_properly_penalty_coef": None,
    _N: 1,
    "rollout.batch_size": 1024,
    "rollout.max_new_tokens": None,
    "rollout.top_p": 1.0,
    "train.batch_size": 128,
    "train.max_epochs": 1,
    "train.async_enable": False,
    "train.partial_rollout_enable": False,
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    name = settings.word(_ADVANTAGE + "estimator", (*ESTIMATORS, "gae"))
    baseline, spread, is_whitened = ESTIMATORS.get(name, (Baseline.NONE, Spread.NONE, True))
    needs_group = baseline in (Baseline.GROUP_MEAN, Baseline.OTHERS_MEAN)
    is_response_mean = (
        settings.word("actor.loss_agg_mode", AGGREGATIONS) == "seq-mean-token-mean"
        or settings.word("actor.policy_loss_type", LOSSES) == "gspo"
    )
    truncated_note = " ".join(_penalties(settings))
    return Update(
        group_size=settings.whole(_N, least=2 if needs_group else 1),
        baseline=baseline,
        divisor=Divisor(spread, 1, 1e-9) if spread is Spread.GROUP else Divisor(),
        cut=_pair(settings, "reward.clip_range"),
        whitening=Whitening(ddof=0, divides=not settings.flag(_ADVANTAGE + "no_std_norm")) if is_whitened else None,
        filter=_filter(settings),
        reduction=Reduction.RESPONSE_MEAN if is_response_mean else Reduction.TOKEN_MEAN,
        scope="all of an optimiser step, on all processes",
        single=Single.REFUSED if needs_group else Single.AS_OTHERS,
        missing=Missing.POISONS,
        truncated=Truncated.PENALISED if truncated_note else Truncated.KEPT,
        truncated_note=truncated_note,
        clip=_clip(settings),
        terms=tuple(_terms(settings)),
        corrections=tuple(_corrections(settings)),
        batch_prompts=settings.known_whole("rollout.batch_size", least=1),
        updates_per_rollout=_updates(settings),
        max_response_tokens=settings.known_whole("rollout.max_new_tokens", least=1),
        max_rounding=0.98 if spread is Spread.GROUP else 0.0,
        notes=tuple(_notes(settings, name)),
        unknown=tuple(_unknown(settings)),
        undetermined="gae takes its baseline from a critic, which no configuration describes." if name == "gae" else "",
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    size = {} if settings.whole(_N, least=1) > 1 else {_N: 8}
    for name in ("dr_grpo", "rloo"):
        yield size | {_ADVANTAGE + "estimator": name}
        yield size | {_ADVANTAGE + "estimator": name, "reward.clip_range": [-10, 10]}


def _pair(settings: Settings, key: str) -> tuple[float, float] | None:
    found = settings.numbers(key, 2)
    return None if found is None else (found[0], found[1])


def _filter(settings: Settings) -> Filter | None:
    if not settings.flag("algo.dynamic_filtering_enable"):
        return None
    low, high = _pair(settings, "algo.dynamic_filtering_range") or (0.0, 1.0)
    note = "It reads scores, which a reward function may return next to rewards, and before any penalty for length."
    return Filter(Keep.MEAN_INSIDE, refills=True, low=low, high=high, note=note)


def _penalties(settings: Settings) -> Iterator[str]:
    """What long and truncated responses lose."""
    if settings.optional("reward.overlong_buffer_len") is not None:
        factor = settings.number("reward.overlong_penalty_factor")
        yield f"Within overlong_buffer_len of the limit a response loses up to {factor:g}, before the baseline."
    coefficient = settings.optional("reward.stop_properly_penalty_coef")
    if coefficient is None:
        return
    if coefficient < 0:
        yield f"The reward of a truncated response is replaced by {coefficient:g}, before the baseline."
    else:
        yield (
            f"The reward of a truncated response is multiplied by {coefficient:g}. A wrong one loses nothing, and "
            "gains where its reward is below 0."
        )


def _clip(settings: Settings) -> Clip:
    both = settings.numbers("actor.eps_clip_low_high", 2)
    low, high = both or (settings.number("actor.eps_clip"),) * 2
    dual = settings.optional("actor.dual_clip")
    level = "sequence" if settings.raw("actor.policy_loss_type") == "gspo" else "token"
    return Clip(clipped(low, high, dual=dual), level)


def _terms(settings: Settings) -> Iterator[Term]:
    if kl := settings.number("algo.kl.init_coef"):
        kind = settings.word("algo.kl.estimator", ("k1", "k2", "k3"))
        if settings.flag("algo.kl.use_loss"):
            unbiased = ", with the gradient of the reverse KL" if settings.flag("algo.kl.unbiased_gradient") else ""
            note = f"{kind}{unbiased}; a mean over tokens, whatever loss_agg_mode says"
            yield Term("KL to the reference model, in the loss (algo.kl.init_coef)", kl, moves_equal=True, note=note)
        else:
            note = f"{kind}; added behind the baseline, and summed from each token to the end"
            yield Term("KL to the reference model, in the reward (algo.kl.init_coef)", kl, moves_equal=True, note=note)
    if entropy := settings.optional("actor.entropy_coef"):
        yield Term("entropy bonus (actor.entropy_coef)", entropy, moves_equal=True)
    if router := settings.number("actor.aux_loss_coef"):
        yield Term("load balance of the router (actor.aux_loss_coef)", router, moves_equal=True)
    if decay := settings.number("actor.adam.weight_decay"):
        yield Term("weight decay", decay, moves_equal=True)


def _corrections(settings: Settings) -> Iterator[str]:
    level = settings.word(_ADVANTAGE + "is_correction_level", ("off", "token", "seq"))
    if level != "off" and settings.raw("actor.policy_loss_type") == "gspo":
        yield "gspo takes its ratio to the engine's probabilities. Nothing is masked, whatever the threshold."
    elif level != "off":
        unit = "single tokens" if level == "token" else "whole responses"
        does = "cuts" if settings.raw(_ADVANTAGE + "is_correction_mode") == "clip" else "drops"
        gate, bounds = (settings.raw(_ADVANTAGE + f"is_correction_{key}") for key in ("gating", "threshold"))
        yield (
            f"The ratio of trainer to engine multiplies each token. It {does} {unit} whose {gate} is outside of "
            f"{bounds}; denominators keep them."
        )
    if settings.number(_ADVANTAGE + "gamma") != 1:
        yield "gamma below 1 is read by reinforce alone: earlier tokens then have smaller returns."
    if norm := settings.number("actor.max_norm"):
        yield shortens("actor.max_norm", norm)
    if settings.number("rollout.top_p") != 1:
        yield other_distribution(["rollout.top_p"])


def _updates(settings: Settings) -> int | None:
    prompts = settings.known_whole("rollout.batch_size", least=1)
    rows = settings.known_whole("train.batch_size", least=1)
    if prompts is None or rows is None:
        return None
    return settings.whole("train.max_epochs", least=1) * max(1, prompts * settings.whole(_N, least=1) // rows)


def _notes(settings: Settings, name: str) -> Iterator[str]:
    if name == "gae" and _ADVANTAGE + "estimator" not in settings.given:
        yield "The estimator is gae unless set, with a critic as large as the policy."
    cut = _pair(settings, "reward.clip_range")
    if cut and (name in ("group_norm", "dr_grpo") or "reward.clip_range" in settings.given):
        yield (
            f"reward.clip_range ({cut[0]:g} to {cut[1]:g}) is applied behind the baseline and the standard deviation. "
            "So it cuts advantages, and no reward."
        )
    if name == "dr_grpo" and settings.raw("actor.loss_agg_mode") == "token-mean":
        yield "dr_grpo leaves the division by the number of tokens in place. No setting divides by a constant."
    if name == "reinforce_baseline":
        yield "Advantages are whitened over all tokens of a rollout, so a prompt's weight depends on the others."
    if settings.raw("actor.policy_loss_type") == "gspo":
        yield "gspo averages by response. loss_agg_mode has no effect."
    if "algo.kl.init_coef" not in settings.given:
        yield "A KL of 0.01 to a reference model is on unless algo.kl.init_coef is 0."
    if settings.raw("algo.kl.target") is not None:
        yield "algo.kl.target changes the KL's coefficient while it trains."


def _unknown(settings: Settings) -> Iterator[str]:
    yield not_known("The reward function")
    if settings.flag("train.async_enable"):
        parts = ", and one response can hold tokens of several" if settings.flag("train.partial_rollout_enable") else ""
        yield f"How old responses are: asynchronous training uses those of earlier policy versions{parts}."
    if any("." not in key and key in settings.unknown for key in settings.given):
        yield "Names without a dot, such as --advantage_estimator, are of older versions. This one refuses them."


TRAINER = Trainer(
    name="openrlhf",
    title="OpenRLHF's PPO trainer",
    version="0.11.2",
    evidence=Evidence.RUN,
    defaults=DEFAULTS,
    no_effect=keys_of("openrlhf"),
    update=update,
    remedies=remedies,
    command="python3 -m openrlhf.cli.train_ppo_ray ... {changes}",
    marks=frozenset({_ADVANTAGE + "estimator", _N, "algo.kl.init_coef", "rollout.batch_size", "train_ppo_ray"}),
    package="openrlhf",
    spelled=as_option,
)
