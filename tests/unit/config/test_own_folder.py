"""A folder of one's own in --config-dir: its files build on what is generated, and come before it."""

from __future__ import annotations

import pytest
from hydra._internal.core_plugins.bash_completion import BashCompletion
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from omegaconf import OmegaConf

from ada_lightning.config.overrides import _compose_plain, _loader, override_errors, sweep_jobs
from ada_lightning.programs.start import CONFIG_DIR

FILES = {
    "sampler/mine": "defaults: [balance, _self_]\nk_pos: 3\n",
    "loss/mine": "defaults: [dapo, {override reduction: constant}, _self_]\ndual_clip: 3\n",
    "reward/mine": "defaults: [weighted, _self_]\nreward:\n  rewards:\n    format: {weight: 0.5}\n",
    "environment/mine": "defaults: [calculator, _self_]\nmax_turns: 5\n",
    "token_masks/mine": "defaults: [capo, _self_]\ncapo: {max_shift: 0.5}\n",
    "band/mine": "defaults: [hard, _self_]\nmin_positive: 2\n",
    "experiment/mine": "# @package _global_\ndefaults: [/experiment/cispo, {override /loss: mine}, _self_]\nseed: 5\n",
    "experiment/gspo": "# @package _global_\nexperiment_name: my_gspo\n",
}
"""The last one has the name of an experiment that ships."""


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.fixture
def composed_with(folder):
    def compose(*overrides, program="train"):
        assert override_errors(["--config-dir", str(folder), *overrides], CONFIG_DIR, program) == []
        with _loader(CONFIG_DIR, str(folder)):
            return OmegaConf.create(_compose_plain(program, overrides))

    return compose


def test_its_options_build_on_generated_ones(composed_with):
    cfg = composed_with("sampler=mine", "loss=mine", "reward=mine", "environment=mine", "token_masks=[mine]")
    assert (cfg.sampler.k_pos, cfg.sampler.k_neg) == (3, 2)
    assert (cfg.loss.dual_clip, cfg.loss.importance_cap) == (3, 0)
    assert cfg.loss.reduction._target_.endswith("ConstantReduction")
    assert [part.weight for part in cfg.reward.reward.rewards.values()] == [1.0, 0.5]
    assert (cfg.reward.time_limit_s, cfg.environment.max_turns) == (10, 5)
    assert cfg.token_masks.capo.max_shift == 0.5
    assert composed_with("band=mine", program="prepare").band.max_pass_rate == 0.125


def test_its_experiments_build_on_generated_ones_and_come_before_them(composed_with):
    cfg = composed_with("+experiment=mine")
    assert (cfg.data.num_minibatches, cfg.loss.dual_clip, cfg.seed) == (4, 3, 5)
    assert composed_with("+experiment=gspo").loss._target_.endswith("ClippedPolicyLoss")
    assert composed_with("+experiment=gspo").experiment_name == "my_gspo"


def test_a_sweep_over_its_options_and_generated_ones_has_a_job_for_each(folder):
    words = ["--config-dir", str(folder), "-m", "loss=mine,cispo,dapo"]
    assert override_errors(words, CONFIG_DIR, "train") == []
    assert [cfg.loss.importance_cap for _, cfg in sweep_jobs(words, CONFIG_DIR, "train")] == [0, 2, 0]


def test_a_wrong_name_is_answered_with_both(folder):
    (error,) = override_errors(["--config-dir", str(folder), "loss=min"], CONFIG_DIR, "train")
    assert error.startswith("unknown option loss=min; did you mean mine?")
    assert "cispo, clipped, dapo" in error
    (error,) = override_errors(["sampler=nope"], CONFIG_DIR, "train")
    assert "balance, balance_posterior" in error


def test_what_others_build_on_is_listed_for_nobody(folder):
    for group in ("reward", "environment"):
        (error,) = override_errors([f"{group}=nope"], CONFIG_DIR, "train")
        assert "_pool" not in error


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("loss=di", ["loss=divergence_kl", "loss=divergence_tv"]),
        ("loss=mi", ["loss=mine"]),
        ("loss/reduction=c", ["loss/reduction=constant"]),
        ("+experiment=cis", ["+experiment=cispo"]),
        ("token_m", ["token_masks=", "token_masks."]),
    ],
)
def test_tab_completes_what_is_generated(folder, line, completions):
    with _loader(CONFIG_DIR, str(folder)) as loader:
        assert sorted(BashCompletion(loader)._query(config_name="train", line=line)) == sorted(completions)


def test_groups_and_options_are_found_wherever_they_stand(folder):
    with _loader(CONFIG_DIR, str(folder)):
        loader = GlobalHydra.instance().config_loader()
        assert {"loss", "reward", "sampler", "data"} <= {*loader.list_groups("")}
        assert loader.list_groups("loss") == ["importance", "reduction"]
        assert loader.get_group_options("loss/importance", ObjectType.CONFIG) == [
            *("geometric_rejection", "sequence_rejection", "sequence_truncation", "token_rejection"),
            "token_truncation",
        ]
