"""What --help says is true, and an option that does not exist gets an answer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from ada_lightning.choices import describe_choices, register_choices
from ada_lightning.config import override_errors

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"


@pytest.fixture(scope="module")
def text():
    result = subprocess.run(
        [sys.executable, "train.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout


def test_help_is_a_screenful(text):
    lines = text.splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 120
    assert "$" not in text


def test_every_choice_is_named(text):
    for group in ("model", "sampler", "selection", "advantage", "objective", "loss/reduction", "rollout", "experiment"):
        for file in (CONF / group).glob("*.yaml"):
            assert re.search(rf"\b{file.stem}\b", text), f"{group}={file.stem} is not in --help"
    assert "balance*, balance_posterior" in text


def test_every_key_it_names_exists():
    footer = yaml.safe_load((CONF / "hydra" / "help" / "train.yaml").read_text())["footer"]
    keys = re.findall(r"^  ([\w.]+)  ", footer, re.MULTILINE)
    assert len(keys) == 10
    register_choices(CONF)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("train", overrides=["+experiment=ada_seq_balance"])
    assert [
        key for key in keys if OmegaConf.is_missing(config, key) or OmegaConf.select(config, key, default="?") == "?"
    ] == []


def test_a_group_without_a_default_has_no_star(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "other").mkdir()
    for name in ("part/b", "part/a", "other/c"):
        (tmp_path / f"{name}.yaml").write_text("")
    (tmp_path / "main.yaml").write_text("defaults:\n  - part: b   # what it is\n  - _self_\n")
    assert describe_choices(tmp_path, "main", ("other",)).splitlines() == [
        "  part        what it is: a, b*",
        "  other       c",
    ]
    with pytest.raises(ValueError, match="no group another"):
        describe_choices(tmp_path, "main", ("another",))


@pytest.mark.parametrize(
    ("argument", "answer"),
    [
        ("--seed=3", "unknown option --seed=3; settings have no dashes: seed=3"),
        ("--experiment=grpo", "settings have no dashes: experiment=grpo"),  # no abbreviation of Hydra's options
        ("--halp", "did you mean --help?"),
        ("-x", "unknown option -x"),
    ],
)
def test_an_unknown_option_gets_an_answer(argument, answer):
    (error,) = override_errors([argument], CONF, "train")
    assert answer in error


@pytest.mark.parametrize(
    "arguments", [["--cfg", "job"], ["-m", "seed=0,1"], ["--package=sampler", "-c", "job"], ["--resolve"]]
)
def test_options_of_hydra_are_known(arguments):
    assert override_errors(arguments, CONF, "train") == []
