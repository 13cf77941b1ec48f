"""The readers that follow a trainer's source: prime-rl, SkyRL, NeMo-RL, slime."""

from __future__ import annotations

import math

import pytest

from ada_lightning.objective import as_text, objective_card
from ada_lightning.objective.command import card_of
from ada_lightning.objective.readers.find import TRAINERS
from ada_lightning.objective.settings import Evidence, SettingError
from ada_lightning.objective.update import Keep, Reduction, Single, Truncated
from ada_lightning.objective.weights import PASS_RATES

PRIME = {"orchestrator.group_size": 8}
SKYRL = {"generator.n_samples_per_prompt": 8}
NEMO = {"grpo.num_generations_per_prompt": 8}
SLIME = {"advantage-estimator": "grpo", "n-samples-per-prompt": 8}
POOLS = {"curriculum": {"sampler": {"type": "difficulty_pool"}}}
LEAVE_ONE_OUT = "grpo.use_leave_one_out_baseline"
WEIGHTS = {  # summed over every outcome with the trainers' own functions
    "prime-rl": (PRIME, (1, 1, 1, 1, 1), 0.875),
    "prime-rl, max_rl": (PRIME | {"orchestrator.algo.type": "max_rl"}, (3.040, 1.991, 1, 0.630, 0.530), 1.984),
    "prime-rl, rae": (PRIME | {"orchestrator.algo.type": "rae"}, (1, 1, 1, 1, 1), 1.0),
    "prime-rl, pools": (PRIME | {"orchestrator.train.source": [POOLS]}, (0.345, 0.410, 1, 0.569, 0.360), 0.509),
    "SkyRL": (SKYRL, (1.333, 1.135, 1, 1.135, 1.333), 1.736),
    "SkyRL, rloo": (SKYRL | {"trainer.algorithm.advantage_estimator": "rloo"}, (1, 1, 1, 1, 1), 1.0),
    "SkyRL, maxrl": (
        SKYRL | {"trainer.algorithm.advantage_estimator": "maxrl"},
        (3.040, 1.991, 1, 0.630, 0.530),
        1.984,
    ),
    "NeMo-RL": (NEMO, (0.734, 1.011, 1, 1.011, 0.734), 2.001),
    "NeMo-RL, 16": ({"grpo.num_generations_per_prompt": 16}, (1.169, 1.268, 1, 1.268, 1.169), 2.010),
    "NeMo-RL, filter": (NEMO | {"grpo.use_dynamic_sampling": True}, (0.347, 0.861, 1, 0.861, 0.347), 1.944),
    "slime": (SLIME, (1.333, 1.135, 1, 1.135, 1.333), 1.736),
    "slime, no std": (SLIME | {"disable-grpo-std-normalization": True}, (1, 1, 1, 1, 1), 0.875),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name):
    settings, weights, at_half = WEIGHTS[name]
    card = objective_card(settings)
    assert card.trainer.title.startswith(name.split(",")[0])
    assert card.trainer.evidence is Evidence.READ
    assert card.weights == pytest.approx(weights, abs=6e-4)
    assert card.weight_at_half == pytest.approx(at_half, abs=6e-4)
    assert card.unknown_keys == ()


def test_every_choice_of_estimator_and_reduction_has_a_card():
    estimators = ("grpo", "rloo", "maxrl", "reinforce++", "gae")
    reductions = ("token_mean", "token_mean_legacy", "sequence_mean", "prompt_mean", "seq_mean_token_sum_norm")
    for estimator in estimators:
        for reduction in reductions:
            algorithm = {"advantage_estimator": estimator, "loss_reduction": reduction}
            card = objective_card({"trainer": {"algorithm": algorithm}, **SKYRL})
            assert card.is_mean or card.remedies, algorithm
            assert bool(card.update.undetermined) is (estimator == "gae")
    for estimator in ("grpo", "gspo", "cispo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "ppo"):
        for switch in ("normalize-advantages", "disable-rewards-normalization", "disable-grpo-std-normalization"):
            card = objective_card(SLIME | {"advantage-estimator": estimator, switch: True})
            assert card.is_mean or card.remedies, (estimator, switch)
    for estimator in ("grpo", "gdpo", "reinforce_plus_plus", "opd"):
        card = objective_card(NEMO | {"grpo.adv_estimator.name": estimator})
        assert card.is_mean or card.remedies, estimator
    for algorithm in ("grpo", "echo", "max_rl", "rae", "hierarchical_grpo", "opd", "opsd", "sft"):
        card = objective_card(PRIME | {"orchestrator.algo.type": algorithm})
        assert card.is_mean or card.remedies, algorithm


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        (SKYRL, {"trainer.algorithm.grpo_norm_by_std": False}),
        (NEMO, {"grpo.adv_estimator.normalize_rewards": False}),
        (SLIME, {"disable-grpo-std-normalization": True}),
        (PRIME | {"orchestrator.algo.type": "max_rl"}, {"orchestrator.algo.type": "grpo"}),
    ],
)
def test_the_smallest_change_is_named(settings, changes):
    assert objective_card(settings).remedies[0].changes == changes
    assert objective_card({**settings, **changes}).is_mean


class TestPrimeRl:
    def test_silent_group_size_trains_nothing(self):
        card = objective_card({"orchestrator.batch_size": 128})
        assert card.update.group_size == 1
        assert any("every advantage is 0" in note for note in card.update.notes)
        assert card.remedies[0].changes == {"orchestrator.group_size": 8}

    def test_what_all_sources_say_counts_and_what_differs_is_not_guessed(self, tmp_path):
        path = tmp_path / "rl.toml"
        source = '[[orchestrator.train.source]]\ngroup_size = {}\nalgo = {{ type = "max_rl" }}\nmine = 1\n'
        path.write_text("[orchestrator]\ngroup_size = 4\n[trainer]\n" + source.format(8) + source.format(8))
        card = card_of(path, {})
        assert card.update.group_size == 8
        assert card.weights == pytest.approx((3.040, 1.991, 1, 0.630, 0.530), abs=6e-4)
        assert card.unknown_keys == ()
        assert any("mine" in sentence for sentence in card.update.unknown)
        path.write_text(source.format(8) + source.format(4))
        assert card_of(path, {}).update.undetermined == "Sources differ in group_size. Give a file with one of them."

    def test_gates_and_pools(self):
        gate = {"curriculum": {"gates": {"zero": {"type": "advantage_range"}}}}
        card = objective_card(PRIME | {"orchestrator.train.source": [gate]})
        assert card.update.filter.keep is Keep.SPREAD
        gate["curriculum"]["gates"]["zero"]["reject_max"] = 0.5
        assert "gate" in objective_card(PRIME | {"orchestrator.train.source": [gate]}).update.undetermined
        pools = {"hard": {"threshold": 0.5, "weight": 0}, "easy": {"threshold": 1, "weight": 1}}
        never = {"curriculum": {"sampler": {"type": "difficulty_pool", "pools": pools}}}
        assert "weight 0" in objective_card(PRIME | {"orchestrator.train.source": [never]}).update.undetermined


WHOLE = {"policy.precision": "bf16", "policy.train_micro_batch_size": 4, "cluster.num_nodes": 1, **NEMO}


class TestNemoRl:
    def test_a_key_of_grpo_reaches_the_estimator_through_the_shipped_file_alone(self):
        assert objective_card(NEMO | {"grpo.normalize_rewards": False}).is_mean
        assert objective_card({"defaults": "a.yaml", **WHOLE, "grpo.normalize_rewards": False}).is_mean
        card = objective_card(WHOLE | {"grpo.normalize_rewards": False})
        assert not card.is_mean
        assert any("does not reach the estimator" in note for note in card.update.notes)

    def test_the_row_filter_goes_by_the_key_of_grpo_whatever_the_estimator(self):
        recipe = {
            "defaults": "grpo_math_1B.yaml",
            "grpo.use_dynamic_sampling": True,
            "grpo.adv_estimator.name": "reinforce_plus_plus",
            "grpo.adv_estimator.use_leave_one_out_baseline": False,
        }
        assert objective_card(NEMO | recipe).update.filter.keep is Keep.ROW_SPREAD
        assert objective_card(NEMO | recipe | {LEAVE_ONE_OUT: False}).update.filter.keep is Keep.SPREAD

    def test_clipped_advantages_change_weights(self):
        cut = objective_card(NEMO | {LEAVE_ONE_OUT: False, "grpo.advantage_clip_high": 1.0})

        def weight(p):
            total = 0.0
            for right in range(1, 8):
                spread = math.sqrt(right * (8 - right) / 56) + 1e-6
                of_right, of_wrong = min((1 - right / 8) / spread, 1.0), -right / 8 / spread
                chance = math.comb(8, right) * p**right * (1 - p) ** (8 - right)
                total += chance * (right * of_right / p - (8 - right) * of_wrong / (1 - p)) / 8
            return total

        assert cut.weights == pytest.approx([weight(p) / weight(0.5) for p in PASS_RATES], abs=1e-9)
        assert cut.weights[0] < 0.7
        assert "cut to at most 1" in " ".join(as_text(cut).split())


def test_skyrl_masks_equal_groups_and_says_so_of_its_terms():
    card = objective_card(SKYRL | {"trainer.algorithm.zero_variance_filter": True})
    assert not card.update.counts_equal
    assert [term.moves_equal for term in card.update.terms] == [False, True]
    assert card.update.terms[0].coefficient == 0.001
    assert objective_card(SKYRL | {"generator.apply_overlong_filtering": True}).update.truncated is Truncated.MASKED
    assert card.update.updates_per_rollout == 4


def test_slime_reads_arrays_of_its_script(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(
        "source models/qwen3-4B.sh\nROLLOUT_ARGS=(\n   --rollout-batch-size 32\n   --n-samples-per-prompt 8\n"
        "   #--global-batch-size 64\n   --global-batch-size 256\n)\n"
        "GRPO_ARGS=( --advantage-estimator grpo --kl-coef 0.1 )\n"
        "ray job submit --address=http://x -- python3 train.py ${MODEL_ARGS[@]} ${ROLLOUT_ARGS[@]} ${GRPO_ARGS[@]}\n"
    )
    card = card_of(path, {})
    assert (card.trainer.name, card.update.group_size, card.update.updates_per_rollout) == ("slime", 8, 1)
    assert card.unknown_keys == ("${MODEL_ARGS[@]}",)
    assert card.update.reduction is Reduction.RESPONSE_MEAN
    assert any("kl-coef has no effect with grpo" in note for note in card.update.notes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (PRIME | {"orchestrator.algo.type": "mine"}, "orchestrator.algo.type is 'mine'"),
        (PRIME | {"orchestrator.train.source": 3}, "no list of tables"),
        (SKYRL | {"trainer.algorithm.loss_reduction": "mine"}, "loss_reduction is 'mine'"),
        (NEMO | {"grpo.adv_estimator.name": "mine"}, "name is 'mine'"),
        (SLIME | {"advantage-estimator": "mine"}, "advantage-estimator is 'mine'"),
    ],
)
def test_what_is_not_known_is_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        objective_card(settings)


@pytest.mark.parametrize("settings", [PRIME, SKYRL, NEMO, SLIME])
def test_a_group_of_one(settings):
    (key,) = [key for key in settings if "size" in key or "num" in key or "samples" in key]
    card = objective_card(settings | {key: 1})
    assert card.update.single is (Single.RAW if card.trainer.name == "skyrl" else Single.ZERO)


def test_own_functions_of_a_user_are_not_read():
    path = "custom-reward-post-process-path"
    assert path in objective_card(SLIME | {path: "mine.f"}).update.undetermined
    assert "not read" in objective_card(PRIME | {"trainer.loss.type": "custom"}).update.undetermined


@pytest.mark.parametrize("name", TRAINERS)
def test_a_key_list_has_no_key_that_is_read(name):
    trainer = TRAINERS[name]
    assert not trainer.no_effect & set(trainer.defaults)
