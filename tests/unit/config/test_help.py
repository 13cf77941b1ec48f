"""What --help says is true, and an option that does not exist gets an answer."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from ada_lightning.config.check import override_errors
from ada_lightning.config.choices import describe_choices, register_choices
from ada_lightning.config.overrides import overrides_without_effect
from ada_lightning.config.prepare import UNUSED
from ada_lightning.methods.catalog import names

ROOT = Path(__file__).resolve().parents[3]
CONF = ROOT / "conf"


PROGRAMS = {"train": ["+experiment=ada_seq_balance"], "prepare": ["run_name=name"], "evaluate": ["run_name=name"]}
"""With what composes the configuration whose keys the text names."""
GROUPS = {
    "train": ("model", "sampler", "selection", "advantage", "objective", "loss/reduction", "rollout", "experiment"),
    "prepare": ("model", "data", "reward", "rollout", "band"),
    "evaluate": ("model", "data", "reward", "rollout", "eval"),
}


@cache
def help_of(program):
    result = subprocess.run(
        [sys.executable, f"{program}.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_is_a_screenful(program):
    lines = help_of(program).splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 120
    assert "$" not in help_of(program)
    assert any(line.startswith(f"python {program}.py") for line in lines)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_choice_is_named(program):
    for group in GROUPS[program]:
        assert names(CONF, group)
        for name in names(CONF, group):
            assert re.search(rf"\b{name}\b", help_of(program)), f"{group}={name} is not in --help"


@pytest.mark.parametrize(
    ("program", "choices"),
    [("train", "balance*, balance_posterior"), ("prepare", "all*, easy, hard"), ("evaluate", "files, heldout*, paper")],
)
def test_the_default_choice_has_a_star(program, choices):
    assert choices in help_of(program)


@pytest.mark.parametrize("program", ["prepare", "evaluate"])
def test_what_a_program_refuses_is_no_choice(program):
    groups = re.findall(r"^  ([a-z_/]+)  ?", help_of(program).partition("Settings that people change")[0], re.MULTILINE)
    assert {"model", "data/source/tasks"} <= set(groups)
    assert overrides_without_effect([f"{group}=any" for group in groups], UNUSED, program) == []
    assert "rollout/schedule" not in help_of(program)
    assert "rollout/schedule" in help_of("train")


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_key_it_names_exists(program):
    footer = yaml.safe_load((CONF / "hydra" / "help" / f"{program}.yaml").read_text())["footer"]
    keys = re.findall(r"^  ([\w.]+)  ", footer, re.MULTILINE)
    assert len(keys) == 10
    register_choices(CONF)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(program, overrides=PROGRAMS[program])
    assert [
        key for key in keys if OmegaConf.is_missing(config, key) or OmegaConf.select(config, key, default="?") == "?"
    ] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_command_it_shows_is_one(program):
    """The keys and options of the examples, each with a name put in where a person would."""
    lines = re.findall(rf"^python {program}\.py(.*)$", help_of(program), re.MULTILINE)
    assert len(lines) >= 4
    for line in lines:
        command = re.sub(r"<[^>]*>", "name", line.partition("  ")[0])
        arguments = shlex.split(command)
        assert override_errors(arguments, CONF, program) == [], line


def test_a_group_is_described_with_its_default_starred_or_left_out(tmp_path):
    (tmp_path / "part" / "below").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    for name in ("part/b", "part/a", "part/_base", "part/below/c", "other/d"):
        (tmp_path / f"{name}.yaml").write_text("")
    (tmp_path / "main.yaml").write_text("defaults:\n  - part: b   # what it is\n  - _self_\n")
    part, below, other = "  part        what it is: a, b*", "  part/below  c", "  other       d"
    assert describe_choices(tmp_path, "main", ("other",)).splitlines() == [part, below, other]
    assert describe_choices(tmp_path, "main", ("~part/below",)) == part
    assert describe_choices(tmp_path, "main", ("~part",)) == ""
    for group in ("another", "~parts"):
        with pytest.raises(ValueError, match=f"no group {group.strip('~')}"):
            describe_choices(tmp_path, "main", (group,))


@pytest.mark.parametrize("argument", ["rollout=_service", "rollout=service", "rollout.host=_service"])
def test_what_options_build_on_is_no_option(argument):
    (error,) = override_errors([argument], CONF, "train")
    assert "vllm_cpu" in error
    assert "_service" not in error.replace(argument, "")


@pytest.mark.parametrize(
    ("argument", "answer"),
    [
        ("--seed=3", "unknown option --seed=3; settings have no dashes: seed=3"),
        ("--experiment=grpo", "settings have no dashes: +experiment=grpo"),  # no abbreviation of Hydra's options
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


@pytest.mark.parametrize(
    ("arguments", "masks"),
    [
        (["token_masks=capo"], ["capo"]),
        (["token_masks=[capo,jackpot]"], ["capo", "jackpot"]),
        (["+experiment=capo", "token_masks=none"], []),
        (["+experiment=capo", "token_masks=jackpot"], ["jackpot"]),
        (["token_masks=capo", "token_masks.capo.max_shift=1"], ["capo"]),
    ],
)
def test_a_part_whose_default_is_a_list_is_chosen_as_any_other(arguments, masks):
    assert override_errors(arguments, CONF, "train") == []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        assert list(compose("train", arguments).token_masks) == masks


def test_a_sweep_over_lists_is_understood():
    assert override_errors(["-m", "token_masks=none,[capo,jackpot]"], CONF, "train") == []
    (error,) = override_errors(["-m", "token_masks=none,[capo,jackpt]"], CONF, "train")
    assert error.startswith("unknown option token_masks=jackpt; did you mean jackpot?")


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["+experiment=capo", "+token_masks=none"], "leave out the plus: token_masks=none"),
        (["+callbacks.budget=60"], "callbacks.budget exists already; leave out the plus: callbacks.budget=60"),
        (["data=dataset", "data.source.filters={a:1}"], "data.source.filters is a list and not keys with values"),
        (["~token_masks"], "token_masks cannot be left out; choose with token_masks=<option>, of capo, jackpot, none"),
        (["token_masks=[]"], "an empty list chooses no option; options: capo, jackpot, none"),
        (["sampler=[]"], "an empty list chooses no option"),
        (["+experiment=capo", "token_masks={}"], "an empty mapping changes nothing in token_masks"),
    ],
)
def test_what_would_change_nothing_or_cannot_be_composed_is_refused(arguments, answer):
    (error,) = override_errors(arguments, CONF, "train")
    assert answer in error
