"""The runs of Reinforce-Ada's tables (arXiv:2510.04996v3, section 4.1 and appendix D), as published.

Settings, data and models: ``conf/paper/base.yaml``. Each recipe says the paper's weighted avg@32 (tables 2 and 4) for
the models that have a row: ``model=qwen2_5_math_1_5b | qwen2_5_math_7b | llama3_2_3b_instruct | qwen3_4b_instruct``.
Start one with ``data.source.path=train.jsonl``.
"""

from __future__ import annotations

from dataclasses import replace

from ada_lightning.core.options import use
from ada_lightning.methods.advantages import GroupNormalizedAdvantage, PoolMeanAdvantage
from ada_lightning.methods.estimators.counting import EmaEstimator
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.recipe import Recipe, known
from ada_lightning.methods.sampling import BalanceSampler, PositiveSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection

BASE = ("/paper/base",)
ADA_DUAL_CLIP = 10.0
"""Of run_reinforce_ada.sh; run_grpo.sh leaves verl's default, 3."""

SEQ_BALANCE = known(
    Recipe(
        name="paper/ada_seq_balance",
        text="""
            Reinforce-Ada-Seq-balance as published: two of each class, blocks of 4, at most 32, reward minus the pool's
            mean. Blocks of 4 are those of appendix D. The script has 8, with which the paper's figures cannot have been
            made. The dual clip of 10 is that of run_reinforce_ada.sh; run_grpo.sh leaves verl's 3. The exact update:
            advantage=exact loss/reduction=constant. Settings, data and models: conf/paper/base.yaml, with
            data.source.path=train.jsonl. The paper's weighted avg@32 (tables 2 and 4) by model=...: qwen2_5_math_1_5b
            47.6 (easy set), 45.5 (hard); qwen2_5_math_7b 54.6 (easy set), 53.9 (hard); llama3_2_3b_instruct 29.1;
            qwen3_4b_instruct 67.6.
        """,
        builds_on=BASE,
        sampler=use(BalanceSampler, k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4),
        selection=BalancedSelection,
        advantage=PoolMeanAdvantage,
        settings={"loss.dual_clip": ADA_DUAL_CLIP},
    )
)
SEQ_POS = known(
    Recipe(
        name="paper/ada_seq_pos",
        text="""
            Reinforce-Ada-Seq-pos as published: one positive, blocks of 4, at most 32, reward minus the pool's mean.
            Blocks of 4 are those of appendix D. The script has 8, with which the paper's figures cannot have been made.
            The dual clip of 10 is that of run_reinforce_ada.sh; run_grpo.sh leaves verl's 3. The exact update:
            advantage=exact loss/reduction=constant. Settings, data and models: conf/paper/base.yaml, with
            data.source.path=train.jsonl. The paper's weighted avg@32 (tables 2 and 4) by model=...: qwen2_5_math_1_5b
            46.1 (easy set), 44.6 (hard); qwen2_5_math_7b 54.2 (easy set), 52.8 (hard); llama3_2_3b_instruct 28.8;
            qwen3_4b_instruct 67.4.
        """,
        builds_on=BASE,
        sampler=use(PositiveSampler, k_pos=1, samples_per_round=4, n_max=32, group_size=4),
        selection=BalancedSelection,
        advantage=PoolMeanAdvantage,
        settings={"loss.dual_clip": ADA_DUAL_CLIP},
    )
)
EST = known(
    Recipe(
        name="paper/ada_est",
        text="""
            Reinforce-Ada-Est as published: Algorithm 1, an average of 8 responses in proportion to p^-1/2, times
            1/sqrt(pool mean) on each, all of them trained. Pass rates come from the exponential average, with values of
            the public code. The paper does not say which of its two estimators the tables have, nor the bounds on the
            number. The branch with Est has no script of its own, so the dual clip is that of run_reinforce_ada.sh. The
            exact update: advantage=exact loss/reduction=constant. Settings, data and models: conf/paper/base.yaml, with
            data.source.path=train.jsonl. The paper's weighted avg@32 (tables 2 and 4) by model=...: qwen2_5_math_1_5b
            46.5 (easy set); qwen2_5_math_7b 53.7 (easy set); no such row: llama3_2_3b_instruct, qwen3_4b_instruct.
        """,
        builds_on=BASE,
        estimator=EmaEstimator,
        sampler=EstimatedSampler,
        selection=AllSelection,
        advantage=use(PoolMeanAdvantage, weight_power=0.5),
        settings={"loss.dual_clip": ADA_DUAL_CLIP},
    )
)
GRPO = known(
    Recipe(
        name="paper/grpo",
        text="""
            GRPO with 4 responses per prompt, rewards standardised within the group. The dual clip of 3 is verl's
            default, in effect in run_grpo.sh; run_reinforce_ada.sh has 10. Settings, data and models:
            conf/paper/base.yaml, with data.source.path=train.jsonl. The paper's weighted avg@32 (tables 2 and 4) by
            model=...: qwen2_5_math_1_5b 45.3 (easy set), 41.9 (hard); qwen2_5_math_7b 53.3 (easy set), 51.3 (hard);
            llama3_2_3b_instruct 27.9; qwen3_4b_instruct 66.5.
        """,
        builds_on=BASE,
        sampler=use(UniformSampler, group_size=4),
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
        settings={"loss.dual_clip": 3.0},
    )
)
GRPO_N8 = known(
    replace(
        GRPO,
        name="paper/grpo_n8",
        text="""
            GRPO with 8 responses per prompt. The mean over tokens does not grow with the number of responses. Settings,
            data and models: conf/paper/base.yaml, with data.source.path=train.jsonl. The paper's weighted avg@32
            (tables 2 and 4) by model=...: qwen2_5_math_1_5b 46.1 (easy set); no such row: qwen2_5_math_7b,
            llama3_2_3b_instruct, qwen3_4b_instruct.
        """,
        sampler=use(UniformSampler, group_size=8),
    )
)
GRPO_N16 = known(
    replace(
        GRPO,
        name="paper/grpo_n16",
        text="""
            GRPO with 16 responses per prompt. The mean over tokens does not grow with the number of responses.
            Settings, data and models: conf/paper/base.yaml, with data.source.path=train.jsonl. The paper's weighted
            avg@32 (tables 2 and 4) by model=...: qwen2_5_math_1_5b 47.3 (easy set); no such row: qwen2_5_math_7b,
            llama3_2_3b_instruct, qwen3_4b_instruct.
        """,
        sampler=use(UniformSampler, group_size=16),
    )
)
GRPO_SCRIPT = known(
    replace(
        GRPO,
        name="paper/grpo_script",
        text="""
            GRPO with 4 responses per prompt as run_grpo.sh has it, which differs from the paper's text and from
            run_reinforce_ada.sh: no warm-up, weight decay, no entropy bonus, 400 steps. It loads a reference for a KL
            of weight 0, which changes nothing. Settings, data and models: conf/paper/base.yaml, with
            data.source.path=train.jsonl. The paper's weighted avg@32 (tables 2 and 4) by model=...: qwen2_5_math_1_5b
            45.3 (easy set), 41.9 (hard); qwen2_5_math_7b 53.3 (easy set), 51.3 (hard); llama3_2_3b_instruct 27.9;
            qwen3_4b_instruct 66.5.
        """,
        settings={
            "loss.dual_clip": 3.0,
            "num_steps": 400,
            "policy.warmup_steps": 0,
            "loss.entropy_coef": 0.0,
            "optimizer.weight_decay": 0.01,
        },
    )
)
DAPO = known(
    replace(
        GRPO,
        name="paper/dapo",
        text="""
            DAPO's dynamic sampling on GRPO with 4 responses: groups without a signal are replaced. What else the
            paper's DAPO run had is not public. Here it has the run's own clip and mean over tokens, the dual clip of
            DAPO's recipe (verl-recipe's DAPO script), and no penalty for length. Settings, data and models:
            conf/paper/base.yaml, with data.source.path=train.jsonl. The paper's weighted avg@32 (tables 2 and 4) by
            model=...: qwen2_5_math_1_5b 45.9 (easy set); no such row: qwen2_5_math_7b, llama3_2_3b_instruct,
            qwen3_4b_instruct.
        """,
        refill="dynamic",
        settings={"loss.dual_clip": 10.0},
    )
)
