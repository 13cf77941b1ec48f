"""What is recorded: every method that ships, and every part that none of them uses, in the smallest run that shows it.

A case is a name, overrides of ``conf/train.yaml`` as a user types them, and whether rewards are graded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ada_lightning.config.generated import CONFIG_DIR as CONF
from ada_lightning.methods.catalog import experiments

EXPERIMENTS = [name for name in experiments(CONF) if "/" not in name]


@dataclass(frozen=True, slots=True)
class Case:
    """One tape."""

    name: str
    overrides: tuple[str, ...]
    graded: bool = False
    """Rewards are tenths instead of 0 and 1."""


TWEAKS: dict[str, tuple[str, ...]] = {
    "auto": ("curriculum.cost_ratio=1",),  # clocks differ
    # Four steps are short: what begins later must begin sooner to be seen.
    "ada_est_value": ("estimator.warmup_steps=1", "estimator.width=4", "estimator.learning_rate=0.05"),
    "knapsack": ("sampler.min_seen=2",),
    "capo": ("optimizer=adamw", "optimizer.lr=0.2"),  # models a step of Adam
    "pilot_commit": ("sampler.num_pilot=8", "sampler.num_commit=8", "sampler.group_size=16"),
    "gvm_grpo": ("sampler.num_pilot=4", "sampler.responses_per_prompt=8", "sampler.n_max=24"),
    "gvm_raft": ("sampler.num_pilot=4", "sampler.responses_per_prompt=8", "sampler.n_max=24"),
    "speed_rl": ("sampler.num_continue=8", "sampler.group_size=12"),
    "flowrl": ("loss.partition.learning_rate=0.1",),  # that of the policy here is for plain gradient steps
    "prompt_replay": ("curriculum.cooldown=0", "sampler.group_size=6"),
    "spo": ("data.num_minibatches=2",),
    "cgrpo": (
        "sampler.budgets=[2,4,8]",
        "sampler.group_size=8",
        "sampler.num_calibration=3",
        "sampler.recalibrate_every=2",
    ),
    # Updates are small, too: clips are near 1, so that some tokens are beyond them.
    "cispo": ("loss.clip_low=0.02", "loss.clip_high=0.02"),
    "divergence_ppo_kl": ("loss.delta_low=0.003", "loss.delta_high=0.003"),
    "divergence_ppo_tv": ("loss.delta_low=0.006", "loss.delta_high=0.008", "loss.ratio_cap=1.5"),
}
"""Further overrides of an experiment."""

BALANCE = ("+experiment=ada_seq_balance",)
GRPO = ("+experiment=grpo",)
ADA = ("+experiment=ada",)
CLIPPED = ("loss.clip_low=0.02", "loss.clip_high=0.03", "data.num_minibatches=3")
POOL = ("sampler.group_size=8", "advantage=official", "advantage.normalize_std=true")

PARTS: dict[str, tuple[str, ...]] = {
    # samplers
    "sampler_balance_posterior": (*BALANCE, "sampler=balance_posterior"),
    "sampler_positive_posterior": ("+experiment=ada_seq_pos", "sampler=positive_posterior"),
    "sampler_balance_budget": (*BALANCE, "sampler.budget_per_step=60"),
    "sampler_balance_rounds_of_1": (*BALANCE, "sampler.samples_per_round=1", "sampler.n_max=12"),
    "sampler_positive_k3": ("+experiment=ada_seq_pos", "sampler.k_pos=3", "sampler.n_max=16"),
    "sampler_spread_budget": ("+experiment=ada_spread_partial_credit", "sampler.budget_per_step=50"),
    "sampler_optpo_budget": ("+experiment=optpo", "sampler.budget_per_step=40", "sampler.threshold=9"),
    "sampler_cut": (*ADA, "sampler=cut", "sampler.num_tokens=3"),
    "sampler_dars_normalized": ("+experiment=dars_et", "sampler.normalize_std=true", "advantage=grpo"),
    "sampler_gvm_constant": ("+experiment=gvm_grpo", *TWEAKS["gvm_grpo"], "sampler/gradient_norm=constant"),
    "sampler_gvm_embed_tokens": ("+experiment=gvm_grpo", *TWEAKS["gvm_grpo"], "sampler/gradient_norm=embed_tokens"),
    "sampler_estimated_all_exponents": ("+experiment=ada_est_ema", "sampler.gamma=1.0", "sampler.n_min=1"),
    "sampler_first_visit": (
        "+experiment=spo", "data.num_minibatches=2", "sampler=first_visit", "sampler.num_first=3", "selection=seen",
        "curriculum.unseen_first=true",
    ),
    # advantages, their baselines and objectives
    "advantage_stratified": (*BALANCE, "advantage=stratified"),
    "advantage_stratified_pass_at_k": (*BALANCE, "advantage=stratified", "objective=pass_at_k"),
    "advantage_first_round": (
        *BALANCE, "advantage=official", "advantage.weight_power=1.0", "advantage.max_weight=4",
        "advantage.pass_rate._target_=ada_lightning.methods.pass_rates.FirstRoundRate",
    ),
    "advantage_posterior_rate": (
        *BALANCE, "advantage=official", "advantage.weight_power=0.5",
        "advantage.pass_rate._target_=ada_lightning.methods.pass_rates.PosteriorRate",
    ),
    "advantage_path_counting": (
        *BALANCE, "advantage=official", "advantage.weight_power=1.0", "advantage.max_weight=4",
        "advantage.pass_rate._target_=ada_lightning.methods.pass_rates.PathCountingRate",
    ),
    "advantage_weighted_first_round": (
        "+experiment=ada_spread_partial_credit",
        "advantage.baseline._target_=ada_lightning.methods.pass_rates.FirstRoundRate",
    ),
    "advantage_whitened_by_tokens": ("+experiment=batch_whitening", "advantage.by_tokens=true"),
    "advantage_whitened_grpo": ("+experiment=batch_whitening", "advantage.advantage.normalize_std=true"),
    "advantage_reinforce_by_responses": ("+experiment=reinforce_plus_plus", "advantage.by_tokens=false"),
    "advantage_gdpo_by_tokens": ("+experiment=gdpo", "advantage.by_tokens=true", "advantage.weights.format=0.5"),
    "advantage_novelty_plain": ("+experiment=xrpo", "advantage.normalize_std=false"),
    **{f"objective_{name}": (*BALANCE, f"objective={name}") for name in ("linear", "logit", "pass_at_k", "power")},
    "objective_logit_positive": ("+experiment=ada_seq_pos", "objective=power"),
    # selections
    "selection_balanced_random": (*BALANCE, "selection.random_order=true"),
    "selection_rarer_class": (*BALANCE, "selection=rarer_class"),
    "selection_quantile": ("+experiment=ada_spread_partial_credit", "selection=quantile"),
    "selection_quantile_random": (
        "+experiment=ada_spread_partial_credit", "selection=quantile", "selection.random_order=true",
        "sampler.group_size=4",
    ),
    "selection_stratified_in_order": ("+experiment=ada_spread_partial_credit", "selection.random_order=false"),
    "selection_thinned": (*ADA, "sampler.group_size=8", "selection=thinned"),
    "selection_largest_advantage": (*GRPO, *POOL, "selection=largest_advantage"),
    "selection_resolved_balanced": (
        "+experiment=pilot_commit", *TWEAKS["pilot_commit"], "selection.selection._target_="
        "ada_lightning.methods.selection.BalancedSelection", "+selection.selection.group_size=4",
    ),
    # estimators
    "estimator_beta_drift": (*ADA, "estimator.drift_visits=8"),
    "estimator_window_exact": (
        "+experiment=coba_rl", "estimator.whole_visit=false", "estimator.window=4",
    ),
    "estimator_gaussian_words": (
        "+experiment=vip", "estimator/embedding=words", "estimator/length_scale=fixed", "estimator.noise=1.0",
    ),
    "estimator_similar_as_given": ("+experiment=ada_similar", "estimator.scale_width=0"),
    "estimator_similar_spread": ("+experiment=ada_similar", "estimator.spread_scale=0.1"),
    "estimator_similar_few_visits": ("+experiment=ada_similar", "estimator.num_visits=9"),
    # curricula
    "curriculum_posterior": (*BALANCE, "curriculum=posterior"),
    "curriculum_posterior_learnability": (*BALANCE, "curriculum=learnability", "curriculum.revisit_ratio=0.5"),
    "curriculum_expected_near_target": (
        "+experiment=ada_similar", "curriculum/usefulness=near_target", "curriculum.usefulness.target=0.9",
    ),
    "curriculum_band": (*ADA, "curriculum=difficulty_band"),
    "curriculum_greso_unfilled": ("+experiment=greso", "refill=none", "curriculum.step_size=0.2"),
    # refills
    "refill_dynamic": (*GRPO, "sampler.group_size=8", "refill=dynamic"),
    "refill_one_at_a_time": (*GRPO, "sampler.group_size=8", "refill=dynamic", "refill.refill_ratio=0"),
    "refill_oversampling": (*GRPO, "sampler.group_size=8", "refill=dynamic", "refill.oversampling=1.7"),
    "refill_capped": (*GRPO, "sampler.group_size=8", "refill=dynamic", "refill.max_ratio=1.2"),
    "refill_adaptive": (*GRPO, "sampler.group_size=8", "refill=adaptive"),
    "refill_balance": ("+experiment=ada_seq_balance_official", "refill=dynamic"),
    # what becomes of responses that were cut and of those that were not graded
    **{
        f"truncated_{name}": (*BALANCE, f"rollout.truncated={name}") for name in ("zero", "exclude", "mask")
    },
    "grader_failure_as_zero": (*BALANCE, "rollout.grader_failure=as_zero"),
    # schedules
    "schedule_barrier": (*BALANCE, "rollout/schedule=barrier"),
    "schedule_wasteful": (*BALANCE, "rollout.schedule.max_waste_ratio=1.0"),
    "schedule_without_drawing_ahead": (*BALANCE, "rollout.schedule.fill_to=0"),
    "schedule_reproducible": (*BALANCE, "reproducible=true"),
    # losses, their reductions and corrections
    "loss_dapo": (*GRPO, "loss=dapo", *CLIPPED, "loss.dual_clip=1.05"),
    "loss_grpo": (*GRPO, "loss=grpo", *CLIPPED),
    "loss_grpo_entropy": (*GRPO, "loss=grpo", "loss.entropy_coef=0.01"),
    **{
        f"reduction_{name}": (*BALANCE, f"loss/reduction={name}", "data.num_minibatches=3")
        for name in ("constant", "prompt_mean", "response_mean", "token_mean")
    },
    **{
        f"importance_{name}": (*GRPO, f"loss/importance={name}", *CLIPPED)
        for name in (
            "geometric_rejection", "sequence_rejection", "sequence_truncation", "token_rejection", "token_truncation",
        )
    },
    "epochs_per_rollout": (*BALANCE, "data.num_minibatches=2", "data.epochs_per_rollout=2", *CLIPPED[:2]),
    "microbatches": (*BALANCE, "data.max_tokens_per_microbatch=32"),
    "prompts_not_shared": (*BALANCE, "data.share_prompts=false"),
}  # fmt: skip
"""Parts and settings that no experiment shows."""

GRADED_ONLY = {"ada_spread_partial_credit", "sampler_spread_budget", "selection_quantile", "selection_quantile_random"}
"""What makes no sense of rewards of 0 and 1."""
BINARY_ONLY = ("exact", "stratified")
"""Advantages of two classes; the product refuses partial credit with them."""


GRADED_PARTS = ("advantage_", "curriculum_", "estimator_", "refill_", "sampler_", "selection_")
"""Beginnings of the names of ``PARTS`` that look at rewards; for the others 0 and 1 are enough."""


def all_cases(is_for_two_classes: Callable[[Case], bool]) -> list[Case]:
    """List every case, those with the same overrides together.

    Args:
        is_for_two_classes: whether a case's method refuses rewards between 0 and 1.
    """
    cases: list[Case] = []
    for name, overrides in ({name: (f"+experiment={name}",) for name in EXPERIMENTS} | PARTS).items():
        case = Case(name, (*overrides, *TWEAKS.get(name, ())))
        if name not in GRADED_ONLY:
            cases.append(case)
        if (name in EXPERIMENTS or name.startswith(GRADED_PARTS)) and not is_for_two_classes(case):
            cases.append(Case(f"{name}.graded", case.overrides, graded=True))
    return cases
