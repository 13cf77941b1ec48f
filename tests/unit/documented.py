"""Commands of this project's programs as its pages and scripts have them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_STARTS = re.compile(r"^(?:\w+=\S+ )*(?:srun|torchrun|python3?|\.venv/bin/python)\b")


def commands(page: str, program: str = "train.py") -> list[list[str]]:
    """Overrides of every command of a page that starts a program, in code blocks, inline code and shell scripts.

    ``...`` in a command stands for an experiment, which is put there.
    """
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = text.splitlines() if page.endswith(".sh") else _code(text)
    found = []
    for line in blocks:
        if _STARTS.match(line) and f" {program} " in line:
            words = shlex.split(line.partition(f" {program} ")[2], comments=True)
            kept = [word for word in words if word not in ("$@", "-m") and not word.startswith("--")]
            found.append(["+experiment=ada_seq_balance" if word == "..." else word for word in kept])
    return found


def _code(text: str) -> list[str]:
    blocks = re.findall(r"^```(?:bash|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()] + re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
