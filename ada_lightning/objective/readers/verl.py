"""verl's PPO trainer: its command line, or the YAML that Hydra composes of it.

Held against verl 0.9.1: ``trainer/ppo/core_algos.py`` (estimators, ``agg_loss``, policy losses), and the sampler of its
trainer V1, ``trainer/ppo/v1/replay_buffer.py``, for filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ada_lightning.objective.readers.words import clipped, not_known, other_distribution, shortens
from ada_lightning.objective.settings import Changes, Evidence, Settings, Trainer, keys_of
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

EPSILON = 1e-6
WHITENED = Whitening(ddof=1, epsilon=1e-8)
ESTIMATORS: dict[str, tuple[Baseline, Spread, Whitening | None, Single]] = {
    "grpo": (Baseline.GROUP_MEAN, Spread.GROUP, None, Single.RAW),
    "grpo_vectorized": (Baseline.GROUP_MEAN, Spread.GROUP, None, Single.RAW),
    "grpo_passk": (Baseline.RUNNER_UP, Spread.GROUP, None, Single.REFUSED),
    "gdpo": (Baseline.GROUP_MEAN, Spread.GROUP, WHITENED, Single.RAW),
    "rloo": (Baseline.OTHERS_MEAN, Spread.NONE, None, Single.RAW),
    "rloo_vectorized": (Baseline.OTHERS_MEAN, Spread.NONE, None, Single.ZERO),
    "opo": (Baseline.LENGTH_MEAN, Spread.NONE, None, Single.RAW),
    "gpg": (Baseline.GROUP_MEAN, Spread.REWARDED_SHARE, None, Single.RAW),
    "reinforce_plus_plus_baseline": (Baseline.GROUP_MEAN, Spread.NONE, WHITENED, Single.RAW),
    "reinforce_plus_plus": (Baseline.NONE, Spread.NONE, WHITENED, Single.AS_OTHERS),
}
"""Those that need neither a critic nor a greedy response: baseline, spread, whitening, a group of one."""
_UNDETERMINED = {
    "gae": "gae takes its baseline from a value model, which no configuration describes.",
    "remax": "remax takes the reward of a greedy response for its baseline, which no configuration describes.",
    "optimal_token_baseline": "Its baseline differs between tokens, by their log-probabilities.",
    "tir_optimal_token_baseline": "Its baseline differs between tokens, by their log-probabilities.",
}
_REDUCTIONS = {
    "token-mean": Reduction.TOKEN_MEAN,
    "token-sum": Reduction.TOKEN_SUM,
    "seq-mean-token-sum": Reduction.RESPONSE_SUM,
    "seq-mean-token-sum-norm": Reduction.CONSTANT,
    "seq-mean-token-mean": Reduction.RESPONSE_MEAN,
}
AGGREGATIONS = tuple(_REDUCTIONS)
LOSS_MODES = ("vanilla", "gspo", "sapo", "gpg", "cispo", "geo_mean", "clip_cov", "kl_cov", "dppo_tv", "dppo_kl", "dro")
_RESPONSE_MEAN_ALWAYS = ("sapo", "geo_mean")
"""Losses that average by response, whatever ``loss_agg_mode`` says."""
_ACTOR = "actor_rollout_ref.actor."
_ROLLOUT = "actor_rollout_ref.rollout."
_ALGORITHM = "algorithm."
_OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg."
DEFAULTS: dict[str, Any] = {
    _ALGORITHM + "adv_estimator": "gae",
    _ALGORITHM + "norm_adv_by_std_in_grpo": True,
    _ALGORITHM + "use_kl_in_reward": False,
    _ALGORITHM + "kl_ctrl.kl_coef": 0.001,
    _ALGORITHM + "kl_penalty": "kl",
    _ALGORITHM + "gamma": 1.0,
    _ALGORITHM + "filter_groups.enable": False,
    _ALGORITHM + "filter_groups.metric": "reward",
    _ALGORITHM + "filter_groups.max_num_gen_batches": 0,
    _ALGORITHM + "rollout_correction.rollout_is": None,
    _ALGORITHM + "rollout_correction.rollout_is_threshold": 2.0,
    _ALGORITHM + "rollout_correction.rollout_rs": None,
    _ALGORITHM + "rollout_correction.bypass_mode": False,
    _ALGORITHM + "gdpo_reward_keys": None,
    _ALGORITHM + "use_pf_ppo": False,
    _ACTOR + "loss_agg_mode": "token-mean",
    _ACTOR + "loss_scale_factor": None,
    _ACTOR + "policy_loss.loss_mode": "vanilla",
    _ACTOR + "clip_ratio": 0.2,
    _ACTOR + "clip_ratio_low": 0.2,
    _ACTOR + "clip_ratio_high": 0.2,
    _ACTOR + "clip_ratio_c": 3.0,
    _ACTOR + "entropy_coeff": 0,
    _ACTOR + "use_kl_loss": False,
    _ACTOR + "kl_loss_coef": 0.001,
    _ACTOR + "kl_loss_type": "low_var_kl",
    _ACTOR + "ppo_epochs": 1,
    _ACTOR + "ppo_mini_batch_size": 256,
    _ACTOR + "grad_clip": 1.0,
    _ACTOR + "optim.weight_decay": 0.01,
    _ROLLOUT + "n": 1,
    _ROLLOUT + "response_length": None,
    _ROLLOUT + "top_p": 1,
    _ROLLOUT + "top_k": -1,
    "data.train_batch_size": 1024,
    "data.max_response_length": 512,
    _OVERLONG + "enable": False,
    _OVERLONG + "len": None,
    _OVERLONG + "penalty_factor": None,
    "trainer.use_v1": True,
    "trainer.v1.trainer_mode": "sync",
    "trainer.v1.sampler.max_off_policy_strategy": "drop",
    "trainer.v1.sampler.custom_sampler.path": None,
    "reward.reward_manager.name": "naive",
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    name = settings.word(_ALGORITHM + "adv_estimator", (*ESTIMATORS, *_UNDETERMINED))
    mode = settings.word(_ACTOR + "policy_loss.loss_mode", LOSS_MODES)
    size = settings.whole(_ROLLOUT + "n", least=1)
    baseline, spread, whitening, single = ESTIMATORS.get(name, (Baseline.NONE, Spread.NONE, None, Single.AS_OTHERS))
    if spread is Spread.GROUP and not settings.flag(_ALGORITHM + "norm_adv_by_std_in_grpo"):
        spread = Spread.NONE
    reduction = _REDUCTIONS[settings.word(_ACTOR + "loss_agg_mode", AGGREGATIONS)]
    is_of_responses = reduction in (Reduction.RESPONSE_MEAN, Reduction.RESPONSE_SUM, Reduction.CONSTANT)
    length = settings.known_whole(_ROLLOUT + "response_length", least=1)
    return Update(
        group_size=size,
        baseline=baseline,
        divisor=Divisor(spread, 1, EPSILON) if spread is Spread.GROUP else Divisor(spread),
        whitening=whitening,
        filter=_filter(settings),
        reduction=Reduction.RESPONSE_MEAN if mode in _RESPONSE_MEAN_ALWAYS else reduction,
        scope="a mini-batch of ppo_mini_batch_size * rollout.n responses, as configured, padding included"
        if is_of_responses
        else "a mini-batch, on all processes",
        counts_masked=True,
        single=single,
        missing=Missing.UNKNOWN if name == "grpo_passk" else Missing.POISONS,
        truncated=Truncated.PENALISED if settings.flag(_OVERLONG + "enable") else Truncated.KEPT,
        truncated_note="The penalty of overlong_buffer_cfg is part of the reward, so it is in the group's mean."
        if settings.flag(_OVERLONG + "enable")
        else "",
        clip=_clip(settings, mode),
        terms=tuple(_terms(settings)),
        corrections=tuple(_corrections(settings)),
        batch_prompts=settings.known_whole("data.train_batch_size", least=1),
        updates_per_rollout=_updates(settings),
        max_response_tokens=length or settings.known_whole("data.max_response_length", least=1),
        max_rounding=0.107 if spread is Spread.GROUP and baseline is Baseline.GROUP_MEAN else 0.0,
        notes=tuple(_notes(settings, name, mode, size)),
        unknown=tuple(_unknown(settings)),
        undetermined=_undetermined(settings, name, mode, size),
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    size = {} if settings.whole(_ROLLOUT + "n", least=1) > 1 else {_ROLLOUT + "n": 8}
    alike = {_ACTOR + "loss_agg_mode": "seq-mean-token-sum"}
    for changes in (
        {_ALGORITHM + "norm_adv_by_std_in_grpo": False},
        {_ALGORITHM + "adv_estimator": "rloo"},
    ):
        yield size | changes
        yield size | changes | alike


def _filter(settings: Settings) -> Filter | None:
    if not settings.flag(_ALGORITHM + "filter_groups.enable"):
        return None
    metric = settings.raw(_ALGORITHM + "filter_groups.metric")
    reads = "The filter reads the reward with its overlong penalty, so an all-right group of other lengths is kept."
    is_penalised = settings.flag(_OVERLONG + "enable") and metric != "acc"
    mode = settings.raw("trainer.v1.trainer_mode")
    return Filter(Keep.SPREAD, refills=True, note=reads if is_penalised else "", prefers_fast=mode != "sync")


def _undetermined(settings: Settings, name: str, mode: str, size: int) -> str:
    if name in _UNDETERMINED:
        return _UNDETERMINED[name]
    if settings.raw("trainer.v1.sampler.custom_sampler.path") is not None:
        return "A custom sampler chooses what trains."
    if settings.flag(_ALGORITHM + "use_pf_ppo"):
        return "use_pf_ppo draws the batch again by its rewards."
    if mode in ("clip_cov", "kl_cov"):
        return f"{mode} chooses tokens by the covariance of advantage and log-probability in the batch."
    if name == "grpo_passk" and size == 1:
        return "grpo_passk raises an error for groups of one."
    return ""


def _clip(settings: Settings, mode: str) -> Clip | None:
    low, high, dual = (settings.raw(_ACTOR + key) for key in ("clip_ratio_low", "clip_ratio_high", "clip_ratio_c"))
    plain = settings.number(_ACTOR + "clip_ratio")
    low = plain if low is None else settings.number(_ACTOR + "clip_ratio_low")
    high = plain if high is None else settings.number(_ACTOR + "clip_ratio_high")
    bounds = clipped(low, high)
    if mode == "vanilla":
        return Clip(f"{bounds}; with a negative advantage it is at most {dual}, always")
    if mode in ("gspo", "geo_mean"):
        return Clip(bounds, "sequence")
    if mode in ("gpg", "dro"):
        return None
    return Clip(bounds if mode == "cispo" else f"the rule of {mode}")


def _terms(settings: Settings) -> Iterator[Term]:
    if settings.flag(_ACTOR + "use_kl_loss"):
        kind = settings.raw(_ACTOR + "kl_loss_type")
        yield Term("KL to the reference model, in the loss", settings.number(_ACTOR + "kl_loss_coef"), True, f"{kind}")
    if settings.flag(_ALGORITHM + "use_kl_in_reward"):
        kind = settings.raw(_ALGORITHM + "kl_penalty")
        coefficient = settings.number(_ALGORITHM + "kl_ctrl.kl_coef")
        yield Term("KL to the reference model, in the reward", coefficient, True, f"{kind}; in the group's mean, too")
    if entropy := settings.number(_ACTOR + "entropy_coeff"):
        yield Term("entropy bonus", entropy, moves_equal=True)
    if decay := settings.number(_ACTOR + "optim.weight_decay"):
        yield Term("weight decay", decay, moves_equal=True)


def _corrections(settings: Settings) -> Iterator[str]:
    kind = settings.raw(_ALGORITHM + "rollout_correction.rollout_is")
    if kind is not None:
        at = settings.raw(_ALGORITHM + "rollout_correction.rollout_is_threshold")
        what = "cut at" if isinstance(at, int | float) else "0 outside of"
        yield f"The ratio of trainer to engine multiplies each {kind}, {what} {at}."
    if settings.raw(_ALGORITHM + "rollout_correction.rollout_rs") is not None:
        yield "rollout_rs masks responses by their ratio. Their tokens stay in the count of token-mean."
    if settings.number(_ALGORITHM + "gamma") != 1.0:
        yield "gamma below 1 is read by reinforce_plus_plus alone: earlier tokens then have smaller returns."
    if clip := settings.optional(_ACTOR + "grad_clip"):
        yield shortens("grad_clip", clip)
    changed = [key for key, off in (("top_p", 1), ("top_k", -1)) if settings.raw(_ROLLOUT + key) != off]
    if changed:
        yield other_distribution(changed)


def _updates(settings: Settings) -> int | None:
    prompts = settings.known_whole("data.train_batch_size", least=1)
    minibatch = settings.known_whole(_ACTOR + "ppo_mini_batch_size", least=1)
    if prompts is None or minibatch is None:
        return None
    return settings.whole(_ACTOR + "ppo_epochs", least=1) * -(-prompts // minibatch)


def _notes(settings: Settings, name: str, mode: str, size: int) -> Iterator[str]:
    if size == 1 and name in ESTIMATORS and ESTIMATORS[name][3] is Single.RAW:
        yield "rollout.n is 1 unless set. Then every response trains on its raw reward, without a baseline."
    if name == "grpo_passk":
        yield "Only groups with exactly one best response train. Two right ones train nothing."
    if name == "gpg":
        yield "It counts rewards that are not 0, over the whole batch. A wrong answer with reward -1 counts, too."
    if name == "opo":
        yield "With equal lengths opo is the reward minus the group's mean."
    if mode in _RESPONSE_MEAN_ALWAYS:
        yield f"{mode} averages by response. loss_agg_mode has no effect."
    if settings.flag(_ALGORITHM + "filter_groups.enable") and settings.flag("trainer.use_v1"):
        rounds = settings.number(_ALGORITHM + "filter_groups.max_num_gen_batches")
        if rounds > 0:
            yield "max_num_gen_batches is ignored by trainer V1, with a warning: there is no cap on rounds."
    mode_v1 = settings.raw("trainer.v1.trainer_mode")
    if mode_v1 != "sync" and settings.raw("trainer.v1.sampler.max_off_policy_strategy") == "drop":
        yield "Asynchronous, with drop: groups that are too old are dropped. Slow prompts are, more than others."


def _unknown(settings: Settings) -> Iterator[str]:
    yield not_known("The reward function")
    if settings.raw(_ALGORITHM + "gdpo_reward_keys"):
        yield "Several rewards are normalised one by one. Weights hold for one of them alone."
    yield "A session that fails gives no row. Its group is smaller, and nothing says so."


TRAINER = Trainer(
    name="verl",
    title="verl's PPO trainer",
    version="0.9.1",
    evidence=Evidence.RUN,
    defaults=DEFAULTS,
    no_effect=keys_of("verl"),
    update=update,
    remedies=remedies,
    command="python -m verl.trainer.main_ppo ... {changes}",
    marks=frozenset({_ALGORITHM + "adv_estimator", _ROLLOUT + "n", _ACTOR + "ppo_mini_batch_size", "verl"}),
    prefixes=(
        "data.",
        "critic.",
        "sandbox_fusion.",
        "distillation.",
        "transfer_queue.",
        "global_profiler.",
        "skip.",
        "ray_kwargs.",
        "hydra.",
        "actor_rollout_ref.model.",
        "actor_rollout_ref.ref.",
        "actor_rollout_ref.rollout.",
        "actor_rollout_ref.hybrid_engine",
        "actor_rollout_ref.nccl_timeout",
        "algorithm._target_",
        "algorithm.filter_groups._target_",
        "actor_rollout_ref.actor._target_",
        "reward._target_",
    ),
    package="verl",
)
