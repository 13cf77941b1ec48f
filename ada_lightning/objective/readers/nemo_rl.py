"""NeMo-RL's GRPO: the YAML of ``run_grpo.py``, or its command.

Read in commit 7ea279a: ``examples/configs/grpo_math_1B.yaml`` and ``algorithms/grpo.py`` (keys, defaults, filter),
``advantage_estimator.py`` and ``utils.py`` (advantages), ``loss/loss_functions.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ada_lightning.objective.readers.words import clipped, not_known, shortens
from ada_lightning.objective.settings import Changes, Evidence, Settings, Trainer, keys_of
from ada_lightning.objective.update import (
    Baseline,
    Clip,
    Divisor,
    Filter,
    Keep,
    Reduction,
    Single,
    Spread,
    Term,
    Truncated,
    Update,
    Whitening,
)

_GRPO, _ESTIMATOR, _LOSS = "grpo.", "grpo.adv_estimator.", "loss_fn."
_SHAPING, _POLICY = "grpo.reward_shaping.", "policy."
_MEGATRON_DECAY = "policy.megatron_cfg.optimizer.weight_decay"
_NAMES = ("grpo", "gdpo", "reinforce_plus_plus", "opd")
_INHERITED = ("normalize_rewards", "use_leave_one_out_baseline")
"""Keys that the estimator has for itself; only the YAML that ships makes them those of ``grpo``."""
_WHOLE = {"policy.precision", "policy.train_micro_batch_size", "cluster.num_nodes"}
"""Keys without a default of their own."""
DEFAULTS: dict[str, Any] = {
    "defaults": None,
    _GRPO + "num_prompts_per_step": 32,
    _GRPO + "num_generations_per_prompt": 16,
    _GRPO + "normalize_rewards": True,
    _GRPO + "use_leave_one_out_baseline": True,
    _GRPO + "use_dynamic_sampling": False,
    _GRPO + "dynamic_sampling_max_gen_batches": 10,
    _GRPO + "overlong_filtering": False,
    _GRPO + "advantage_clip_low": None,
    _GRPO + "advantage_clip_high": None,
    _GRPO + "seq_logprob_error_threshold": None,
    _GRPO + "invalid_tool_call_advantage": None,
    _GRPO + "malformed_thinking_advantage": None,
    _GRPO + "async_grpo.enabled": False,
    _GRPO + "async_grpo.max_trajectory_age_steps": 1,
    _ESTIMATOR + "name": "grpo",
    _ESTIMATOR + "normalize_rewards": True,
    _ESTIMATOR + "use_leave_one_out_baseline": True,
    _ESTIMATOR + "minus_baseline": True,
    _ESTIMATOR + "reward_weights": None,
    _SHAPING + "enabled": False,
    _SHAPING + "stop_properly_penalty_coef": None,
    _GRPO + "reward_scaling.enabled": False,
    _LOSS + "reference_policy_kl_penalty": 0.01,
    _LOSS + "reference_policy_kl_type": "k3",
    _LOSS + "use_kl_in_reward": False,
    _LOSS + "ratio_clip_min": 0.2,
    _LOSS + "ratio_clip_max": 0.2,
    _LOSS + "ratio_clip_c": None,
    _LOSS + "use_importance_sampling_correction": False,
    _LOSS + "truncated_importance_sampling_type": None,
    _LOSS + "sequence_level_importance_ratios": False,
    _LOSS + "token_level_loss": True,
    _LOSS + "force_on_policy_ratio": False,
    _LOSS + "use_cispo": False,
    _LOSS + "disable_ppo_ratio": False,
    _LOSS + "positive_example_nll_weight": 0.0,
    _POLICY + "train_global_batch_size": 512,
    _POLICY + "max_grad_norm": 1.0,
    _POLICY + "optimizer.kwargs.weight_decay": 0.01,
    _POLICY + "megatron_cfg.enabled": False,
    _MEGATRON_DECAY: 0.01,
    _POLICY + "max_total_sequence_length": 512,
    _POLICY + "generation.max_new_tokens": None,
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    name = settings.word(_ESTIMATOR + "name", _NAMES)
    size = settings.whole(_GRPO + "num_generations_per_prompt", least=1)
    baseline, divisor, whitening = _advantage(settings, name)
    is_token = settings.flag(_LOSS + "token_level_loss")
    is_masked, is_shaped = settings.flag(_GRPO + "overlong_filtering"), settings.flag(_SHAPING + "enabled")
    return Update(
        group_size=size,
        baseline=baseline,
        divisor=divisor,
        whitening=whitening,
        bounds=_bounds(settings),
        filter=_filter(settings),
        reduction=Reduction.TOKEN_MEAN if is_token else Reduction.RESPONSE_MEAN,
        scope="the global batch of an optimiser step",
        single=Single.AS_OTHERS if baseline is Baseline.NONE else Single.ZERO,
        truncated=Truncated.MASKED if is_masked else Truncated.PENALISED if is_shaped else Truncated.KEPT,
        truncated_note="reward_shaping lowers rewards, and so the group's mean, too." if is_shaped else "",
        clip=_clip(settings),
        terms=tuple(_terms(settings, name)),
        corrections=tuple(_corrections(settings)),
        batch_prompts=settings.known_whole(_GRPO + "num_prompts_per_step", least=1),
        updates_per_rollout=_updates(settings, size),
        max_response_tokens=settings.known_whole(_POLICY + "generation.max_new_tokens", least=1)
        or settings.known_whole(_POLICY + "max_total_sequence_length", least=1),
        max_rounding=0.0003 if divisor.spread in (Spread.GROUP, Spread.OTHERS) else 0.0,
        notes=tuple(_notes(settings, name, size, divisor)),
        unknown=tuple(_unknown(settings)),
        undetermined="opd follows teachers, not a reward." if name == "opd" else "",
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    more: dict[str, Any] = {}
    if settings.word(_ESTIMATOR + "name", _NAMES) != "grpo":
        more[_ESTIMATOR + "name"] = "grpo"
    if settings.whole(_GRPO + "num_generations_per_prompt", least=1) == 1:
        more[_GRPO + "num_generations_per_prompt"] = 16
    if settings.flag(_GRPO + "use_dynamic_sampling"):
        yield more | {_ESTIMATOR + "normalize_rewards": False, _GRPO + "use_leave_one_out_baseline": False}
        more[_GRPO + "use_dynamic_sampling"] = False
    yield more | {_ESTIMATOR + "normalize_rewards": False}
    unbounded = {_GRPO + "advantage_clip_low": None, _GRPO + "advantage_clip_high": None}
    yield more | {_ESTIMATOR + "normalize_rewards": False} | unbounded


def _advantage(settings: Settings, name: str) -> tuple[Baseline, Divisor, Whitening | None]:
    if name == "opd":
        return Baseline.NONE, Divisor(), None
    if name == "reinforce_plus_plus":
        is_centred = settings.flag(_ESTIMATOR + "minus_baseline")
        return (
            Baseline.GROUP_MEAN if is_centred else Baseline.NONE,
            Divisor(),
            Whitening(ddof=0, epsilon=0.0),
        )
    is_others = _of_estimator(settings, "use_leave_one_out_baseline")
    baseline = Baseline.OTHERS_MEAN if is_others else Baseline.GROUP_MEAN
    divisor = Divisor()
    if _of_estimator(settings, "normalize_rewards"):
        divisor = Divisor(Spread.OTHERS if is_others else Spread.GROUP, 1, 1e-6)
    if name == "gdpo":
        return baseline, divisor, Whitening(ddof=1, epsilon=0.0, counts_rows=True)
    return baseline, divisor, None


def _of_estimator(settings: Settings, key: str) -> bool:
    """Return the estimator's own value; where it is silent, that of ``grpo`` if the shipped YAML stands behind it."""
    if _ESTIMATOR + key not in settings.given and _is_based(settings):
        return settings.flag(_GRPO + key)
    return settings.flag(_ESTIMATOR + key)


def _is_based(settings: Settings) -> bool:
    """Whether a YAML that ships stands behind the file: it names one, or lacks what only that one can set."""
    return settings.raw("defaults") is not None or not settings.given.keys() >= _WHOLE


def _bounds(settings: Settings) -> tuple[float, float] | None:
    low, high = (settings.optional(_GRPO + f"advantage_clip_{side}") for side in ("low", "high"))
    if low is None and high is None:
        return None
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _filter(settings: Settings) -> Filter | None:
    if not settings.flag(_GRPO + "use_dynamic_sampling"):
        return None
    most = settings.whole(_GRPO + "dynamic_sampling_max_gen_batches")
    error = f"After {most} batches that are too few the run ends with an error."
    if not settings.flag(_GRPO + "use_leave_one_out_baseline"):
        return Filter(Keep.SPREAD, refills=True, note=error)
    note = (
        "It asks of each response whether the others differ. So the only right response of a group is dropped, and so "
        f"is an only wrong one: what is left of such groups is equal, fills places and trains nothing. {error}"
    )
    return Filter(Keep.ROW_SPREAD, refills=True, note=note)


def _clip(settings: Settings) -> Clip | None:
    if settings.flag(_LOSS + "disable_ppo_ratio") or settings.flag(_LOSS + "force_on_policy_ratio"):
        return None
    low, high = (settings.number(_LOSS + f"ratio_clip_{side}") for side in ("min", "max"))
    level = "sequence" if settings.flag(_LOSS + "sequence_level_importance_ratios") else "token"
    if settings.flag(_LOSS + "use_cispo"):
        return Clip(f"the ratio is cut to {1 - low:g} .. {1 + high:g}, and no token loses its gradient", level)
    dual = settings.optional(_LOSS + "ratio_clip_c")
    return Clip(clipped(low, high, dual=dual), level)


def _terms(settings: Settings, name: str) -> Iterator[Term]:
    if penalty := settings.number(_LOSS + "reference_policy_kl_penalty"):
        kind = settings.raw(_LOSS + "reference_policy_kl_type")
        in_reward = settings.flag(_LOSS + "use_kl_in_reward")
        if not in_reward or name == "reinforce_plus_plus":
            place = "reward" if in_reward else "loss"
            yield Term(f"KL to the reference model, in the {place}", penalty, moves_equal=True, note=f"{kind}")
    if likelihood := settings.number(_LOSS + "positive_example_nll_weight"):
        yield Term("likelihood of right responses (positive_example_nll_weight)", likelihood, moves_equal=True)
    is_megatron = settings.flag(_POLICY + "megatron_cfg.enabled")
    if decay := settings.number(_MEGATRON_DECAY if is_megatron else _POLICY + "optimizer.kwargs.weight_decay"):
        yield Term("weight decay", decay, moves_equal=True)


def _corrections(settings: Settings) -> Iterator[str]:
    if settings.flag(_LOSS + "use_importance_sampling_correction"):
        kind = settings.raw(_LOSS + "truncated_importance_sampling_type")
        yield f"The ratio of trainer to engine multiplies each token ({kind or 'without a bound'})."
    if settings.raw(_GRPO + "seq_logprob_error_threshold") is not None:
        yield "seq_logprob_error_threshold masks responses on which engine and trainer disagree."
    for key in ("invalid_tool_call_advantage", "malformed_thinking_advantage"):
        if settings.raw(_GRPO + key) is not None:
            yield f"{key} replaces the advantage of some tokens, whatever their reward."
    if settings.flag(_GRPO + "reward_scaling.enabled"):
        yield "reward_scaling maps rewards to another range before the baseline."
    if norm := settings.optional(_POLICY + "max_grad_norm"):
        yield shortens("max_grad_norm", norm)


def _updates(settings: Settings, size: int) -> int | None:
    prompts = settings.known_whole(_GRPO + "num_prompts_per_step", least=1)
    rows = settings.known_whole(_POLICY + "train_global_batch_size", least=1)
    return None if prompts is None or rows is None else -(-prompts * size // rows)


def _notes(settings: Settings, name: str, size: int, divisor: Divisor) -> Iterator[str]:
    if divisor.spread is Spread.OTHERS:
        yield (
            "Each response is divided by the deviation of the others, and by nothing where the others are equal. So "
            "the only right response of a group has advantage 1, undivided."
        )
    if size == 1 and name == "grpo":
        yield "A group of one trains nothing."
    for key in _INHERITED:
        if not _is_based(settings) and _ESTIMATOR + key not in settings.given and _GRPO + key in settings.given:
            yield f"grpo.{key} does not reach the estimator here: it reads grpo.adv_estimator.{key}, which is true."
    if settings.flag(_LOSS + "use_kl_in_reward") and name != "reinforce_plus_plus":
        yield "use_kl_in_reward is read by reinforce_plus_plus alone: here there is no KL at all."
    if settings.flag(_GRPO + "async_grpo.enabled"):
        age = settings.whole(_GRPO + "async_grpo.max_trajectory_age_steps")
        yield f"Asynchronous: responses are up to {age} steps old."
    yield "Rows are grouped by the tokens of their prompt: the same prompt twice in a batch is one group."
    yield "NeMo-RL takes keys that it does not have without a word, so a misspelled one has no effect."


def _unknown(settings: Settings) -> Iterator[str]:
    yield not_known("The reward of the environment")
    if (base := settings.raw("defaults")) is not None:
        yield (
            f"What {base} sets, which was not read: silent settings have the values of grpo_math_1B.yaml. A run's log "
            "prints the final configuration."
        )


TRAINER = Trainer(
    name="nemo-rl",
    title="NeMo-RL's GRPO",
    version="7ea279a",
    evidence=Evidence.READ,
    defaults=DEFAULTS,
    no_effect=keys_of("nemo_rl"),
    update=update,
    remedies=remedies,
    command="uv run examples/run_grpo.py --config {file} {changes}",
    marks=frozenset(
        {
            _GRPO + "num_generations_per_prompt",
            _GRPO + "num_prompts_per_step",
            _GRPO + "adv_estimator.name",
            _LOSS + "reference_policy_kl_penalty",
            _LOSS + "ratio_clip_min",
            "run_grpo",
            "nemo_rl",
        }
    ),
    prefixes=("policy.", "data.", "env.", "logger.", "cluster.", "checkpointing.", "data_plane.", "reward_penalties."),
    spelled=lambda key, value: f"{key}={'null' if value is None else value}",
)
