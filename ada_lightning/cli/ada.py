"""The command ``ada``: starts one of this package's programs in its place, as ``python -m`` does.

With ``python -m`` the folder one stands in is searched for modules first, as with ``python train.py``: a reward or a
sampler of one's own need not be installed. And processes that a program starts of itself know which one it is.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches

from ada_lightning import __version__

PROGRAMS = {
    "train": ("ada_lightning.cli.train", "train a language model with rewards that can be verified"),
    "prepare": ("ada_lightning.cli.prepare", "draw, grade and select training prompts by their pass rate"),
    "evaluate": ("ada_lightning.cli.evaluate", "measure a model or a run on held-out prompts"),
    "report": ("ada_lightning.programs.report", "compare runs on one page"),
    "audit": ("ada_lightning.audit", "say where the tokens of a log went, whichever trainer wrote it"),
    "describe": ("ada_lightning.programs.describe", "print an experiment or an option, with what its settings mean"),
    "export": ("ada_lightning.programs.export", "write a run's weights as a Hugging Face folder with a model card"),
    "doctor": ("ada_lightning.run.doctor", "check that the installed packages fit together"),
}
"""Module and purpose by name."""


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
        near = get_close_matches(name, PROGRAMS, n=1)
        hint = f"did you mean ada {near[0]}?" if near else f"programs: {', '.join(PROGRAMS)}"
        print(f"error: there is no program {name!r}; {hint}", file=sys.stderr)
        sys.exit(2)


def usage() -> str:
    """Say what there is."""
    lines = [f"  ada {name:9} {purpose}" for name, (_, purpose) in PROGRAMS.items()]
    return "\n".join(["usage: ada PROGRAM ...   (ada PROGRAM --help says more; ada --version)", "", *lines])


if __name__ == "__main__":
    main()
