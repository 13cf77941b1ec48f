"""TRL's ``GRPOTrainer``: ``GRPOConfig``, the YAML of ``trl grpo``, or training arguments saved as JSON.

Held against ``trl/trainer/grpo_trainer.py`` and ``grpo_config.py`` of 1.16.0: the block of
``_generate_and_score_completions`` that makes advantages, and ``_compute_loss``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ada_lightning.objective.readers.words import clipped, other_distribution, shortens
from ada_lightning.objective.settings import Changes, Evidence, Settings, Trainer, as_option, keys_of
from ada_lightning.objective.update import (
    Clip,
    Divisor,
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
LOSS_TYPES = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")
SCALES = ("group", "batch", "none")
_REDUCTIONS = {
    "grpo": Reduction.RESPONSE_MEAN,
    "sapo": Reduction.RESPONSE_MEAN,
    "bnpo": Reduction.TOKEN_MEAN,
    "dr_grpo": Reduction.CONSTANT,
    "luspo": Reduction.RESPONSE_SUM,
    "dapo": Reduction.TOKEN_MEAN,
    "cispo": Reduction.TOKEN_MEAN,
    "vespo": Reduction.TOKEN_MEAN,
}
_OF_WINDOW = ("dapo", "cispo", "vespo")
DEFAULTS: dict[str, Any] = {
    "num_generations": 8,
    "scale_rewards": "group",
    "loss_type": "dapo",
    "multi_objective_aggregation": "sum_then_normalize",
    "reward_weights": None,
    "beta": 0.0,
    "use_bias_correction_kl": True,
    "epsilon": 0.2,
    "epsilon_high": None,
    "delta": None,
    "importance_sampling_level": "token",
    "mask_truncated_completions": False,
    "top_entropy_quantile": 1.0,
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
    "router_aux_loss_coef": None,
    "weight_decay": 0.0,
    "max_grad_norm": 1.0,
    "num_iterations": 1,
    "steps_per_generation": None,
    "generation_batch_size": None,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "max_completion_length": 512,
    "use_vllm": False,
    "vllm_importance_sampling_correction": True,
    "vllm_importance_sampling_mode": "sequence_mask",
    "vllm_importance_sampling_clip_max": 3.0,
    "vllm_importance_sampling_cap": None,
    "vllm_importance_sampling_clip_min": None,
    "off_policy_mask_threshold": None,
    "use_liger_kernel": False,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": None,
    "repetition_penalty": 1.0,
    "generation_kwargs": None,
    "reward_funcs": None,
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    loss_type = settings.word("loss_type", LOSS_TYPES)
    size = settings.whole("num_generations", least=2)
    epsilon = settings.number("epsilon")
    high = settings.optional("epsilon_high")
    rows = settings.optional_whole("generation_batch_size", least=1)
    is_masked = settings.flag("mask_truncated_completions")
    divisor, whitening = _scaled(settings)
    return Update(
        group_size=size,
        divisor=divisor,
        whitening=whitening,
        gain=min(1.0, epsilon if high is None else high) if loss_type == "cispo" else 1.0,
        reduction=_REDUCTIONS[loss_type],
        scope="all of an optimiser step, on all processes"
        if loss_type in _OF_WINDOW
        else "a micro-batch; accumulated micro-batches are averaged",
        counts_masked=_REDUCTIONS[loss_type] is not Reduction.TOKEN_MEAN,
        single=Single.REFUSED,
        missing=Missing.LEFT_OUT,
        truncated=Truncated.MASKED if is_masked else Truncated.KEPT,
        truncated_note="A response is truncated if its last token is neither end-of-sequence nor padding."
        if is_masked
        else "",
        clip=_clip(settings, loss_type, epsilon, epsilon if high is None else high),
        terms=tuple(_terms(settings)),
        corrections=tuple(_corrections(settings, loss_type)),
        batch_prompts=rows // size if rows else None,
        updates_per_rollout=_updates(settings, rows),
        max_response_tokens=settings.known_whole("max_completion_length", least=1),
        max_rounding=0.0012 if divisor.spread is Spread.GROUP else 0.0,
        notes=tuple(_notes(settings, loss_type, high)),
        unknown=tuple(_unknown(settings, rows)),
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    more: dict[str, Any] = {}
    if settings.raw("multi_objective_aggregation") == "normalize_then_sum":
        more = {"multi_objective_aggregation": "sum_then_normalize"}
    if _scale(settings) != "none":
        more["scale_rewards"] = "none"
    yield dict(more)
    yield more | {"loss_type": "dr_grpo"}


def _scale(settings: Settings) -> str:
    value = settings.raw("scale_rewards")
    if isinstance(value, bool) or str(value).lower() in ("true", "false"):
        return "group" if str(value).lower() == "true" else "none"
    return settings.word("scale_rewards", SCALES)


def _scaled(settings: Settings) -> tuple[Divisor, Whitening | None]:
    known = ("sum_then_normalize", "normalize_then_sum")
    if settings.word("multi_objective_aggregation", known) == "normalize_then_sum":
        whitening = Whitening(ddof=1, epsilon=EPSILON, is_epsilon_inside=False, counts_rows=True)
        return Divisor(Spread.GROUP, 1, EPSILON), whitening
    scale = _scale(settings)
    if scale == "none":
        return Divisor(), None
    return Divisor(Spread.GROUP if scale == "group" else Spread.BATCH_REWARDS, 1, EPSILON), None


def _clip(settings: Settings, loss_type: str, epsilon: float, high: float) -> Clip | None:
    level = settings.word("importance_sampling_level", ("token", "sequence"))
    delta = settings.optional("delta")
    if loss_type == "cispo":
        return Clip(f"the ratio is at most {high:g}, which is epsilon_high itself and not 1 + epsilon_high", level)
    if loss_type in ("sapo", "vespo"):
        return Clip("a smooth weight of the ratio, which is 1 where the ratio is 1", level)
    capped = f"; ratios are at most {delta:g}" if delta is not None else ""
    return Clip(f"{clipped(epsilon, high)}{capped}", level)


def _terms(settings: Settings) -> Iterator[Term]:
    if beta := settings.number("beta"):
        is_corrected = settings.flag("use_bias_correction_kl")
        note = "k3, times the ratio: its gradient is that of the reverse KL" if is_corrected else "k3"
        yield Term("KL to the reference model, in the loss (beta)", beta, moves_equal=True, note=note)
    entropy = settings.number("entropy_coef")
    if entropy or settings.flag("use_adaptive_entropy"):
        yield Term("entropy bonus (entropy_coef)", entropy, moves_equal=True)
    if router := settings.optional("router_aux_loss_coef"):
        yield Term("load balance of the router (router_aux_loss_coef)", router, moves_equal=True)
    if decay := settings.number("weight_decay"):
        yield Term("weight decay", decay, moves_equal=True)


def _corrections(settings: Settings, loss_type: str) -> Iterator[str]:
    cap = settings.raw("vllm_importance_sampling_cap")
    high = settings.optional("vllm_importance_sampling_clip_max" if cap is None else "vllm_importance_sampling_cap")
    if settings.flag("use_vllm") and settings.flag("vllm_importance_sampling_correction"):
        modes = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
        mode = settings.word("vllm_importance_sampling_mode", modes)
        does = "is 0" if mode.endswith("mask") else "is cut"
        over = "whole responses, so long ones go first" if mode.startswith("sequence") else "single tokens"
        at = f"above {high:g}" if high is not None else "below its lower bound"
        yield f"The ratio of trainer to engine multiplies {over}. It {does} {at}; denominators keep what it drops."
    if settings.optional("off_policy_mask_threshold") is not None:
        yield "off_policy_mask_threshold drops responses with a negative advantage that the policy has left."
    if settings.number("top_entropy_quantile") < 1.0:
        share = settings.number("top_entropy_quantile")
        yield f"Only the {share:.0%} of tokens with the highest entropy train. The denominator counts all of them."
    if settings.number("max_grad_norm") > 0:
        yield shortens("max_grad_norm", settings.number("max_grad_norm"))
    sampling = {"top_p": (1.0, None), "top_k": (0, None), "min_p": (None, 0.0), "repetition_penalty": (1.0, None)}
    changed = [key for key, neutral in sampling.items() if settings.raw(key) not in neutral]
    if changed or settings.raw("generation_kwargs"):
        yield other_distribution([*changed, *(["generation_kwargs"] if settings.raw("generation_kwargs") else [])])


def _updates(settings: Settings, rows: int | None) -> int | None:
    """Optimiser steps on one generation batch."""
    accumulation = settings.whole("gradient_accumulation_steps", least=1)
    steps = settings.optional_whole("steps_per_generation", least=1)
    if steps is None and rows is not None:
        return None  # rows / (per_device_train_batch_size * processes)
    generated = accumulation if steps is None else steps
    return settings.whole("num_iterations", least=1) * max(1, -(-generated // accumulation))


def _notes(settings: Settings, loss_type: str, high: float | None) -> Iterator[str]:
    if loss_type == "dapo" and "loss_type" not in settings.given:
        yield "loss_type is dapo unless set: every token of an optimiser step counts alike. That is not GRPO's formula."
    if loss_type == "cispo" and (high is None or high < 1):
        bound = settings.number("epsilon") if high is None else high
        yield (
            f"cispo cuts every ratio at epsilon_high = {bound:g}, which is below 1. So the gradient is {bound:g} "
            "of its size, and no ratio above that is told from another. TRL's help recommends 5.0."
        )
    if settings.raw("multi_objective_aggregation") == "normalize_then_sum" and "scale_rewards" in settings.given:
        yield "scale_rewards has no effect with normalize_then_sum."
    if _scale(settings) == "batch":
        yield "scale_rewards=batch still subtracts the group's mean. Only the divisor is that of the batch."
    if settings.raw("importance_sampling_level") == "sequence":
        yield "A ratio of the whole response equals the token's on policy. It matters in later updates of a rollout."
    if settings.flag("use_liger_kernel"):
        yield "use_liger_kernel computes the loss by other code, which was not checked."


def _unknown(settings: Settings, rows: int | None) -> Iterator[str]:
    if rows is None:
        yield (
            "The number of processes, and so how many prompts share a generation batch: "
            "per_device_train_batch_size * processes * steps_per_generation / num_generations."
        )
    functions = settings.raw("reward_funcs")
    weights = settings.raw("reward_weights")
    if isinstance(functions, list) and len(functions) == 1:
        return
    if weights is None and functions is None:
        yield "The reward functions. Several are added up, so rewards may be no 0 or 1; one that gives None adds 0."
    else:
        yield "The sum of several reward functions, which is not 0 or 1. One that gives None for a response adds 0."


TRAINER = Trainer(
    name="trl",
    title="TRL's GRPOTrainer",
    version="1.16.0",
    evidence=Evidence.RUN,
    defaults=DEFAULTS,
    no_effect=keys_of("trl"),
    update=update,
    remedies=remedies,
    command="trl grpo --config {file} {changes}",
    marks=frozenset({"num_generations", "scale_rewards", "mask_truncated_completions", "num_iterations", "trl"}),
    package="trl",
    spelled=as_option,
)
