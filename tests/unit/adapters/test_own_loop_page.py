"""``docs/own_loop.md``: its loop runs as it stands there, and is as short as promised."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "own_loop.md").read_text(encoding="utf-8")
CODE, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


class Loop:
    """An engine, a grader and a trainer: a policy of one pass rate, which training raises."""

    def __init__(self) -> None:
        self.rate = 0.2
        self.updates: list[tuple[int, float, float]] = []

    def sample(self, prompt_id, *, seed):
        generator = random.Random(seed)
        ids = [generator.randrange(5) for _ in range(generator.randint(1, 32))]
        return "right" if generator.random() < self.rate else "wrong", ids, [-1.0] * len(ids)

    def update(self, rows, *, denominator):
        balance = sum(advantage for _, _, advantage in rows)
        self.updates.append((len(rows), denominator, balance))
        assert all(isinstance(ids, list) and advantage for _, ids, advantage in rows)
        self.rate = min(self.rate + 0.1, 0.9)


def test_the_loop_of_the_page_runs(capsys):
    loop = Loop()
    names = {
        "ids": [f"p{number}" for number in range(100)],
        "num_steps": 4,
        "engine": loop,
        "trainer": loop,
        "grade": lambda prompt_id, text: float(text == "right"),
    }
    exec(CODE, names)
    assert [denominator for _, denominator, _ in loop.updates] == [32 * 32] * 4
    assert all(rows for rows, _, _ in loop.updates)
    assert json.loads(json.dumps(names["checkpoint"]))["step"] == 4
    said = capsys.readouterr().out
    assert "f(p) = log p (p: pass rate), exactly as far as 32 responses can see" in said
    assert "importance_cap" not in said


def test_the_loop_is_about_fifteen_lines():
    assert len([line for line in CODE.splitlines() if line.strip()]) <= 15


@pytest.mark.parametrize("name", ["choose", "pick", "abandon", "tell", "state_dict", "load_state_dict", "statement"])
def test_the_page_names_what_there_is(name):
    from ada_lightning.adapters import Core

    assert f"{name}(" in PAGE or f"`{name}`" in PAGE
    assert callable(getattr(Core, name))
