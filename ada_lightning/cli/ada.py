"""The command ``ada``: starts one of this package's programs in its place, as ``python -m`` does.

With ``python -m`` the current folder is searched for modules first, as with ``python train.py``: your own reward or
sampler need not be installed. And processes that a program starts of itself know which one it is.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches

from ada_lightning import __version__
from ada_lightning.run.terminal import until_nobody_reads

PROGRAMS = {
    "train": ("ada_lightning.cli.train", "train a language model"),
    "prepare": ("ada_lightning.cli.prepare", "measure the pass rates of your prompts, and select prompts by them"),
    "evaluate": ("ada_lightning.cli.evaluate", "measure a model or a run on held-out prompts"),
    "report": ("ada_lightning.programs.report", "compare runs on one page"),
    "audit": ("ada_lightning.audit", "show where the tokens of a training log went, whichever trainer wrote it"),
    "objective": ("ada_lightning.cli.objective", "say what a trainer's configuration really optimises"),
    "describe": ("ada_lightning.programs.describe", "list methods and options, or explain one with its settings"),
    "export": ("ada_lightning.programs.export", "write a run's weights as a Hugging Face folder with a model card"),
    "doctor": ("ada_lightning.run.doctor", "check that the installed packages fit together"),
}
"""Module and purpose by name."""

FIRST = {
    "ada train +experiment=grpo_chosen preview=true": "what would a step cost, and how many prompts teach?",
    "ada train +experiment=grpo_chosen run_name=first": "train; everything is written to runs/first",
    "ada objective FILE": "what does this configuration optimise? (TRL, verl, ...)",
    "ada audit LOGS": "how many tokens did your trainer waste? (TRL, verl, ...)",
}
"""Commands that most people need first, and what each of them does."""


@until_nobody_reads()
def main() -> None:
    """Become the program that the first argument names."""
    name, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--help", [])
    if name in PROGRAMS:
        os.execv(sys.executable, [sys.executable, "-m", PROGRAMS[name][0], *arguments])
    if name in ("-h", "--help"):
        print(usage())
    elif name == "--version":
        print(f"ada-lightning {__version__}")
    else:
        near = get_close_matches(name.lower(), [*PROGRAMS, "--help", "--version"], n=1)
        hint = f"did you mean ada {near[0]}?" if near else f"programs: {', '.join(PROGRAMS)}"
        print(f"error: there is no program {name!r}; {hint}", file=sys.stderr)
        sys.exit(2)


def usage() -> str:
    """Say what it does, which commands come first, and what else there is."""
    width = max(map(len, FIRST)) + 3
    return "\n".join(
        [
            "Reinforcement learning of language models that decides which prompts to sample, and how often.",
            "",
            "Start with one of these:",
            *(f"  {command:{width}}{text}" for command, text in FIRST.items()),
            "",
            "All programs (ada PROGRAM --help explains each):",
            *(f"  ada {name:9} {purpose}" for name, (_, purpose) in PROGRAMS.items()),
            "",
            "ada --version prints the version.",
        ]
    )


if __name__ == "__main__":
    main()
