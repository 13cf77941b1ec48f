"""What ``ada describe`` prints: YAML that says the same as the class or the recipe, with what each setting means."""

from __future__ import annotations

import pytest
import yaml
from omegaconf import OmegaConf

from ada_lightning.config.described import described, documented, overview
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.core.options import OPTIONS
from ada_lightning.methods.catalog import entries, experiments, groups, names
from ada_lightning.programs.describe import main

MADE = sorted(path for path in entries() if not (CONFIG_DIR / f"{path}.yaml").is_file())
OWN = '''
from ada_lightning.core.options import option
from ada_lightning.methods.sampling import UniformSampler


@option("sampler", "described_own", group_size=7)
class Own(UniformSampler):
    """One of mine."""
'''
WITHOUT_TEXT = {"_target_", "_convert_", "reward", "capo", "jackpot", "environment"}
"""Keys that name a class or a group, or hold a part."""


@pytest.mark.parametrize("path", MADE)
def test_it_is_the_option_as_a_file_of_ones_own_would_have_it(path):
    text = described(path)
    entry = entries()[path]
    assert OmegaConf.to_container(OmegaConf.create(text), resolve=False) == entry.node
    assert (text.splitlines()[0] == f"# @package {entry.package}") == bool(entry.package)


def test_every_setting_of_a_sampler_is_explained():
    unexplained = [
        f"{path}: {key}"
        for path, entry in entries().items()
        if path.startswith(("sampler/", "selection/", "curriculum/", "advantage/", "estimator/", "refill/"))
        for key in entry.node.keys() - WITHOUT_TEXT - {"defaults"}
        if isinstance(target := entry.node.get("_target_"), str) and key not in documented(target)
    ]
    assert unexplained == []


def test_alternatives_and_what_goes_with_an_option_are_printed():
    assert "where prompts lie; estimator/embedding=policy | sentence | words" in described("estimator/gaussian_process")
    assert "one that needs no policy" in described("estimator/similar_prompts")
    assert "objective=linear | log | logit | pass_at_k | power" in described("advantage/exact")
    assert "Needs an estimator that remembers prompts or predicts them" in described("advantage/history_baseline")
    assert "arXiv:2402.14740" in described("advantage/rloo")
    assert "turns by which seeds are tested at start" in described("environment/gem")


def test_a_file_is_printed_as_it_stands():
    assert described("train") == (CONFIG_DIR / "train.yaml").read_text().rstrip()
    assert yaml.safe_load(described("data/jsonl")) == yaml.safe_load((CONFIG_DIR / "data" / "jsonl.yaml").read_text())


def test_groups_and_the_list_of_all_name_everything():
    assert all(name in overview() for name in (*experiments(CONFIG_DIR), *groups(CONFIG_DIR, "loss")))
    text = described("sampler")
    assert all(f"  {name}: " in text for name in names(CONFIG_DIR, "sampler"))
    assert "within it: sampler/gradient_norm" in text
    assert "  dr_grpo: Dr. GRPO: reward minus" in described("advantage")  # "Dr." ends no sentence
    assert "``" not in described("selection")


@pytest.mark.parametrize(
    "name", ["sampler=coba", "sampler/coba", "+experiment=coba_rl", "coba_rl", "experiment/coba_rl"]
)
def test_a_name_may_be_written_as_on_a_command_line(name):
    assert described(name) == described("sampler/coba" if "sampler" in name else "coba_rl")


def test_a_folder_of_ones_own_is_described_too(tmp_path, capsys):
    (tmp_path / "described_own.py").write_text(OWN)
    (tmp_path / "sampler").mkdir()
    (tmp_path / "sampler" / "mine.yaml").write_text("# Mine.\ndefaults: [uniform, _self_]\n")
    try:
        main(["sampler/described_own", "--config-dir", str(tmp_path)])
        main(["sampler/mine", "--config-dir", str(tmp_path)])
    finally:
        OPTIONS["sampler"].pop("described_own", None)
        entries().pop("sampler/described_own", None)
    said = capsys.readouterr().out
    assert "group_size: 7                  # responses per prompt" in said
    assert "# Mine." in said


def test_a_misspelt_name_is_told_what_is_near(capsys):
    with pytest.raises(SystemExit, match="did you mean sampler/knapsack"):
        main(["sampler/knapsak"])
    with pytest.raises(SystemExit, match=r"no method and no option named GRPO; did you mean grpo\?$"):
        main(["GRPO"])
    main(["sampler/knapsack"])
    assert "n_max: 128" in capsys.readouterr().out
