"""ms-swift's GRPO trainer: the command ``swift rlhf --rlhf_type grpo``, or its YAML.

Held against ms-swift 4.6.0: ``swift/rl_core/advantage.py`` and ``grpo_algorithm.py`` (advantages, the filter),
``swift/rlhf_trainers/grpo_trainer.py`` (``_compute_loss_and_metrics``) and ``swift/arguments/rlhf_args.py``.
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

EPSILON = 1e-4
ESTIMATORS = {"grpo": "group", "rloo": "none", "reinforce_plus_plus": "batch"}
"""With the scale of each where ``scale_rewards`` is silent."""
SCALES = ("group", "batch", "none", "gdpo")
_REDUCTIONS = {
    "grpo": Reduction.RESPONSE_MEAN,
    "sapo": Reduction.RESPONSE_MEAN,
    "bnpo": Reduction.TOKEN_MEAN,
    "dr_grpo": Reduction.CONSTANT,
    "dapo": Reduction.TOKEN_MEAN,
    "cispo": Reduction.TOKEN_MEAN,
    "fipo": Reduction.TOKEN_MEAN,
}
LOSS_TYPES = tuple(_REDUCTIONS)
_OF_WINDOW = ("dapo", "cispo", "fipo")
DEFAULTS: dict[str, Any] = {
    "rlhf_type": "dpo",
    "advantage_estimator": "grpo",
    "scale_rewards": None,
    "kl_in_reward": None,
    "beta": None,
    "loss_type": None,
    "epsilon": 0.2,
    "epsilon_high": None,
    "delta": None,
    "importance_sampling_level": "token",
    "num_generations": 8,
    "num_iterations": 1,
    "steps_per_generation": None,
    "generation_batch_size": None,
    "gradient_accumulation_steps": None,
    "dynamic_sample": False,
    "max_resample_times": 3,
    "overlong_filter": False,
    "soft_cache_length": None,
    "max_completion_length": 512,
    "max_new_tokens": None,
    "response_length": None,
    "top_entropy_quantile": 1.0,
    "rollout_importance_sampling_mode": None,
    "rollout_importance_sampling_threshold": 2.0,
    "off_policy_sequence_mask_delta": None,
    "teacher_model": None,
    "teacher_model_server": None,
    "advantage_reweight": None,
    "sdar_loss_coef": 0.0,
    "chord_sft_dataset": [],
    "async_generate": False,
    "multi_turn_scheduler": None,
    "use_liger_kernel": False,
    "weight_decay": 0.1,
    "max_grad_norm": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "repetition_penalty": 1.0,
    "reward_funcs": [],
    "reward_weights": None,
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    settings.word("rlhf_type", ("grpo",))
    loss_type = _loss_type(settings)
    estimator = settings.word("advantage_estimator", tuple(ESTIMATORS))
    scale = _scale(settings)
    size = settings.whole("num_generations", least=2)
    rows = settings.optional_whole("generation_batch_size", least=1)
    is_masked = settings.flag("overlong_filter")
    is_gdpo = scale == "gdpo" and estimator != "reinforce_plus_plus"
    divisor = _divisor(estimator, scale)
    is_soft = settings.optional("soft_cache_length") is not None and "soft_overlong" in _functions(settings)
    truncated = Truncated.MASKED if is_masked else Truncated.PENALISED if is_soft else Truncated.KEPT
    return Update(
        group_size=size,
        baseline=Baseline.OTHERS_MEAN if estimator == "rloo" and not is_gdpo else Baseline.GROUP_MEAN,
        divisor=divisor,
        whitening=Whitening(1, 1e-8, is_epsilon_inside=False, counts_rows=True) if is_gdpo else None,
        filter=_filter(settings),
        gain=min(1.0, _high(settings)) if loss_type == "cispo" else 1.0,
        reduction=_REDUCTIONS.get(loss_type, Reduction.RESPONSE_MEAN),
        scope="all responses that were drawn at a time, on all processes"
        if loss_type in _OF_WINDOW
        else "a micro-batch; accumulated micro-batches are averaged",
        counts_masked=loss_type != "bnpo",
        single=Single.REFUSED,
        missing=Missing.LEFT_OUT if is_gdpo else Missing.ZERO,
        truncated=truncated,
        clip=_clip(settings, loss_type),
        terms=tuple(_terms(settings, is_gdpo=is_gdpo)),
        corrections=tuple(_corrections(settings)),
        batch_prompts=rows // size if rows else None,
        updates_per_rollout=_updates(settings, rows),
        max_response_tokens=_longest(settings),
        max_rounding=0.0012 if divisor.spread is Spread.GROUP else 0.0,
        notes=tuple(_notes(settings, loss_type, estimator, scale)),
        unknown=tuple(_unknown(settings, rows)),
        undetermined=_undetermined(settings, loss_type),
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    known = {} if _loss_type(settings) != "real" else {"loss_type": "grpo"}
    for changes in ({}, {"scale_rewards": "none"}):
        yield known | changes
        yield known | changes | {"loss_type": "dr_grpo"}


def _loss_type(settings: Settings) -> str:
    value = settings.raw("loss_type")
    if isinstance(value, list) and len(value) == 1:
        settings = settings.changed({"loss_type": value[0]})
    return "grpo" if value is None else settings.word("loss_type", (*LOSS_TYPES, "real"))


def _scale(settings: Settings) -> str:
    if settings.raw("scale_rewards") is None:
        return ESTIMATORS[settings.word("advantage_estimator", tuple(ESTIMATORS))]
    return settings.word("scale_rewards", SCALES)


def _divisor(estimator: str, scale: str) -> Divisor:
    if scale == "group":
        return Divisor(Spread.GROUP, 1, EPSILON)
    if scale == "batch":
        is_plus = estimator == "reinforce_plus_plus"
        return Divisor(Spread.BATCH_DIFFERENCES if is_plus else Spread.BATCH_REWARDS, 1, EPSILON)
    return Divisor(Spread.GROUP, 1, 1e-8) if scale == "gdpo" and estimator != "reinforce_plus_plus" else Divisor()


def _high(settings: Settings) -> float:
    high = settings.optional("epsilon_high")
    return settings.number("epsilon") if high is None else high


def _functions(settings: Settings) -> list[str]:
    value = settings.raw("reward_funcs")
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _longest(settings: Settings) -> int | None:
    for key in ("response_length", "max_new_tokens"):
        if found := settings.known_whole(key):
            return found
    return settings.known_whole("max_completion_length", least=1)


def _filter(settings: Settings) -> Filter | None:
    most = settings.whole("max_resample_times")
    if not settings.flag("dynamic_sample") or most < 2:  # one more batch is drawn, and nobody looks at it
        return None
    note = (
        f"At most {most} further batches are drawn, and the last of them is thrown away unread. If there are too few "
        "groups by then, the first batch trains as it was, unfiltered. Equal fractional rewards can pass by rounding."
    )
    return Filter(Keep.SPREAD, refills=True, note=note)


def _clip(settings: Settings, loss_type: str) -> Clip | None:
    level = settings.word("importance_sampling_level", ("token", "sequence", "sequence_token"))
    level = "token" if level == "token" else "sequence"
    low, high, delta = settings.number("epsilon"), _high(settings), settings.optional("delta")
    if loss_type == "cispo":
        return Clip(f"the ratio is at most {high:g}, which is epsilon_high itself and not 1 + epsilon_high", level)
    if loss_type == "sapo":
        return Clip("a smooth weight of the ratio, which is 1 where the ratio is 1", level)
    more = f"; ratios are at most {delta:g}" if delta is not None else ""
    return Clip(f"{clipped(low, high)}{more}", level)


def _terms(settings: Settings, *, is_gdpo: bool) -> Iterator[Term]:
    is_in_reward = settings.raw("kl_in_reward")
    is_in_reward = settings.raw("advantage_estimator") != "grpo" if is_in_reward is None else is_in_reward
    if beta := 0.04 if settings.raw("beta") is None else settings.number("beta"):
        if is_in_reward and not is_gdpo:
            note = "k1 of the whole response; in the group's mean and standard deviation, too"
            yield Term("KL to the reference model, in the reward (beta)", beta, moves_equal=True, note=note)
        else:
            yield Term("KL to the reference model, in the loss (beta)", beta, moves_equal=True, note="k3")
    if sdar := settings.number("sdar_loss_coef"):
        yield Term("distillation from a teacher (sdar_loss_coef)", sdar, moves_equal=True)
    if decay := settings.number("weight_decay"):
        yield Term("weight decay", decay, moves_equal=True)


def _corrections(settings: Settings) -> Iterator[str]:
    if (mode := settings.raw("rollout_importance_sampling_mode")) is not None:
        at = settings.number("rollout_importance_sampling_threshold")
        yield f"{mode}: the ratio of trainer to engine multiplies the loss, KL included, and is limited at {at:g}."
    if settings.optional("off_policy_sequence_mask_delta") is not None:
        yield "off_policy_sequence_mask_delta drops responses with a negative advantage that the policy has left."
    if (share := settings.number("top_entropy_quantile")) < 1.0:
        yield f"Only the {share:.0%} of tokens with the highest entropy train. The denominator counts all of them."
    if norm := settings.number("max_grad_norm"):
        yield shortens("max_grad_norm", norm)
    sampling = {"top_p": (1.0, None), "top_k": (-1, 0, None), "repetition_penalty": (1.0, None)}
    if changed := [key for key, neutral in sampling.items() if settings.raw(key) not in neutral]:
        yield other_distribution(changed)


def _updates(settings: Settings, rows: int | None) -> int | None:
    accumulation = settings.optional_whole("gradient_accumulation_steps", least=1) or 1
    steps = settings.optional_whole("steps_per_generation", least=1)
    if steps is None and rows is not None:
        return None
    return settings.whole("num_iterations", least=1) * -(-(steps or accumulation) // accumulation)


def _notes(settings: Settings, loss_type: str, estimator: str, scale: str) -> Iterator[str]:
    if settings.raw("beta") is None:
        yield "beta is 0.04 unless set: a KL to a reference model, which TRL has not."
    if loss_type == "cispo" and _high(settings) < 1:
        high = _high(settings)
        yield f"cispo cuts every ratio at epsilon_high = {high:g}. So the gradient is {high:g} of its size."
    if scale == "gdpo" and estimator == "reinforce_plus_plus":
        yield "gdpo has no effect with reinforce_plus_plus: nothing is divided."
    if scale == "gdpo" and estimator == "rloo":
        yield "gdpo replaces rloo's advantages. advantage_estimator has no effect."
    if estimator == "reinforce_plus_plus":
        yield "reinforce_plus_plus subtracts the mean of the group, as its authors' baseline variant does."
    updates = _updates(settings, settings.optional_whole("generation_batch_size", least=1))
    if loss_type in _OF_WINDOW and (updates is None or updates > settings.whole("num_iterations", least=1)):
        yield (
            "Each update divides by the tokens of all responses that were drawn, those of other updates included. More "
            "updates a rollout are smaller ones."
        )
    if settings.flag("dynamic_sample") and settings.whole("max_resample_times") < 2:
        yield "max_resample_times below 2 leaves dynamic_sample without an effect: what it draws is thrown away."
    if settings.flag("async_generate"):
        yield "async_generate: responses are one policy version old, and the ratio takes them for fresh."


def _unknown(settings: Settings, rows: int | None) -> Iterator[str]:
    if rows is None:
        yield "The number of processes, and so how many prompts share a generation batch."
    if len(_functions(settings)) != 1:
        yield "The sum of several reward functions, which is not 0 or 1. One that gives None adds 0."
    else:
        yield not_known("The reward function")
    if settings.raw("multi_turn_scheduler") is not None:
        yield "What a scheduler of several turns draws. Groups are then of other sizes."
    if settings.flag("use_liger_kernel"):
        yield "use_liger_kernel computes the loss by other code, which was not checked."


def _undetermined(settings: Settings, loss_type: str) -> str:
    if loss_type == "real":
        return "real is a logistic loss over a group's right and wrong responses, and no advantage stands in it."
    if settings.raw("advantage_reweight") is not None:
        return "advantage_reweight changes each token's advantage by a teacher's probabilities."
    if settings.raw("teacher_model") is not None or settings.raw("teacher_model_server") is not None:
        return "A teacher's log-ratio is added to each token's advantage."
    if settings.raw("chord_sft_dataset"):
        return "chord adds a loss on other data."
    return ""


TRAINER = Trainer(
    name="ms_swift",
    title="ms-swift's GRPOTrainer",
    version="4.6.0",
    evidence=Evidence.RUN,
    defaults=DEFAULTS,
    no_effect=keys_of("ms_swift"),
    update=update,
    remedies=remedies,
    command="swift rlhf ... {changes}",
    marks=frozenset({"rlhf_type", "advantage_estimator", "kl_in_reward", "dynamic_sample", "overlong_filter", "swift"}),
    package="swift",
    spelled=as_option,
)
