"""What the timing of a newcomer's first hour runs is what the page says, with nothing of ours left out."""

from __future__ import annotations

import shlex

from ada_lightning.cli.ada import PROGRAMS
from ada_lightning.config.check import override_errors
from ada_lightning.programs.start import CONFIG_DIR
from research.benchmarks.first_figure import PAGE, commands


def test_every_program_is_run_as_the_page_has_it_with_options_that_exist():
    found = [shlex.split(command) for command in commands(PAGE.read_text(), num_steps=2)]
    assert [words[:2] for words in found[:3]] == [["git", "clone"], ["pip", "wheel"], ["pip", "install"]]
    ours = {words[1]: words[2:] for words in found if words[0] == "ada"}
    assert set(ours) == set(PROGRAMS) - {"objective"}  # reads another trainer's file, which a newcomer need not have
    assert not any(character in " ".join(map(str, found)) for character in "<>#")
    assert {"num_steps=2", "run_name=first"} <= set(ours["train"])
    assert all("runs/first" in " ".join(ours[name]) for name in ("evaluate", "report", "audit", "export"))
    assert "data.source.num_train=200" in ours["prepare"]  # all 2,000 would take hours on two cores
    for program in ("train", "evaluate", "prepare"):
        assert override_errors(ours[program], CONFIG_DIR, program) == []
