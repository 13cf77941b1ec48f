"""Finds arguments of a trainer with which the update is not the sum of advantage times log-probability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_NEUTRAL = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "generation_kwargs": None}
"""Arguments of GRPOConfig that change what responses are drawn from, and the values that leave it."""


def refusals(trainer: Any, *, dataset: Any, reward: Any, max_kept: int, num_prompts: int) -> Iterator[str]:
    """Yield a sentence for each argument with which the rows would mean something else.

    Args:
        trainer: GRPOTrainer.
        dataset: that carries the prompts that were picked.
        reward: function that hands advantages over.
        max_kept: most rows of a prompt.
        num_prompts: of a step.
    """
    if trainer.train_dataset is not dataset:
        yield "train_dataset must be ada.dataset: it holds the prompts that were chosen for each step"
    if list(trainer.reward_funcs) != [reward]:
        yield "reward_funcs must be only ada.advantages: responses are graded by AdaRollouts(reward=...)"
    yield from _shape_refusals(trainer, max_kept, num_prompts)
    yield from _advantage_refusals(trainer.args)
    yield from _resume_refusals(trainer.args)
    if trainer.tools or trainer.environment_factories is not None:
        yield "tools and environment_factory would run on top of rows that are complete; leave them out"
    if not trainer.use_vllm and (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
        yield (
            "generating with the trained model under FSDP or DeepSpeed needs all processes in every step of a "
            "response, and adaptive rounds differ; use vLLM"
        )


def _shape_refusals(trainer: Any, max_kept: int, num_prompts: int) -> Iterator[str]:
    rows, group = trainer.args.generation_batch_size, trainer.num_generations
    if group <= max_kept:
        yield f"num_generations = {group} is less than the {max_kept} rows a prompt may keep and one that balances them"
    if rows != num_prompts * group:
        yield (
            f"a step has {rows} rows (per_device_train_batch_size * processes * steps_per_generation), and "
            f"{num_prompts} prompts of {group} rows are {num_prompts * group}; ada.config() has numbers that fit"
        )
    elif rows // trainer.accelerator.num_processes % group:
        yield (
            f"groups of {group} rows would lie on two processes: num_prompts = {num_prompts} does not divide by "
            f"{trainer.accelerator.num_processes}"
        )
    if trainer.args.gradient_accumulation_steps > trainer.args.steps_per_generation:
        yield (
            f"gradient_accumulation_steps={trainer.args.gradient_accumulation_steps} with steps_per_generation="
            f"{trainer.args.steps_per_generation} makes several rollouts for one update, and the core learns between "
            "rollouts; leave steps_per_generation out and raise num_prompts"
        )
    elif trainer.args.num_iterations * trainer.args.steps_per_generation % trainer.args.gradient_accumulation_steps:
        yield (
            f"num_iterations={trainer.args.num_iterations} times steps_per_generation="
            f"{trainer.args.steps_per_generation} does not divide by gradient_accumulation_steps="
            f"{trainer.args.gradient_accumulation_steps}: an update would take rows of two rollouts"
        )


def updates_of_a_rollout(args: Any) -> int:
    """Return how many updates train on the rows of one rollout."""
    return int(args.num_iterations * args.steps_per_generation // args.gradient_accumulation_steps)


def _advantage_refusals(args: Any) -> Iterator[str]:
    if args.scale_rewards != "none" or args.multi_objective_aggregation != "sum_then_normalize":
        yield (
            f'scale_rewards="{args.scale_rewards}", multi_objective_aggregation="{args.multi_objective_aggregation}" '
            'would rescale advantages that are final; use "none" and "sum_then_normalize"'
        )
    if args.reward_weights is not None:
        yield "reward_weights would rescale advantages that are final; AdaRollouts takes reward_weights"
    if args.mask_truncated_completions:
        yield (
            "mask_truncated_completions=True drops rows by length, which the core would not know; use False, and "
            "**{'rollout.truncated': 'mask'}"
        )


def _resume_refusals(args: Any) -> Iterator[str]:
    if args.shuffle_dataset:
        yield "shuffle_dataset=True would reorder the prompts that were chosen; the curriculum shuffles; use False"
    if args.restore_callback_states_from_checkpoint:
        yield "restore_callback_states_from_checkpoint=True would replace ada.callback, which restores itself"
    if args.ignore_data_skip:
        yield "ignore_data_skip=True would start prompts anew after a resume; use False"


def approximations(trainer: Any) -> Iterator[str]:
    """Yield a reason for each argument by which the update departs from the statement without becoming meaningless."""
    yield from _loss_approximations(trainer.args)
    yield from _mask_approximations(trainer.args)
    if changed := [
        f"{name}={value!r}" for name in _NEUTRAL if (value := getattr(trainer.args, name)) != _NEUTRAL[name]
    ]:
        yield f"{', '.join(changed)}: responses come from another distribution than the one that is trained"
    if trainer.use_vllm:
        yield from _engine_approximations(trainer.args)


def _loss_approximations(args: Any) -> Iterator[str]:
    if args.loss_type != "dr_grpo":
        yield f'loss_type="{args.loss_type}" divides by what was kept, not by a constant; exact is "dr_grpo"'
    if args.num_iterations > 1 or args.steps_per_generation > args.gradient_accumulation_steps:
        yield (
            f"num_iterations={args.num_iterations}, steps_per_generation={args.steps_per_generation} with "
            f"gradient_accumulation_steps={args.gradient_accumulation_steps} make several updates of one rollout, all "
            "but the first off-policy"
        )
    if args.beta:
        yield f"beta={args.beta} adds a KL term that is not part of the objective"
    if args.entropy_coef or args.use_adaptive_entropy:
        yield "an entropy bonus is no part of the objective"
    if args.use_liger_kernel:
        yield "use_liger_kernel=True replaces parts of the model; this is untested"


def _mask_approximations(args: Any) -> Iterator[str]:
    if args.importance_sampling_level != "token":
        yield f'importance_sampling_level="{args.importance_sampling_level}" averages over the tokens of a response'
    if args.off_policy_mask_threshold is not None:
        yield f"off_policy_mask_threshold={args.off_policy_mask_threshold} drops whole responses by their ratio"
    if args.top_entropy_quantile < 1:
        yield f"top_entropy_quantile={args.top_entropy_quantile} trains some tokens only"


def _engine_approximations(args: Any) -> Iterator[str]:
    mode = args.vllm_importance_sampling_mode
    if not args.vllm_importance_sampling_correction:
        yield (
            "vllm_importance_sampling_correction=False: the engine's probabilities differ a little from the trainer's, "
            "and nothing corrects for it"
        )
    elif mode.endswith("_mask"):
        yield (
            f'vllm_importance_sampling_mode="{mode}" drops by ratio, long responses first; use "token_truncate" or '
            '"sequence_truncate"'
        )
    else:
        yield f'vllm_importance_sampling_mode="{mode}" corrects for the engine\'s probabilities up to a bound'
