"""Hinted groups of a run's folder are a rule of their own, and no visits of their prompts."""

from __future__ import annotations

import pandas as pd

from ada_lightning.audit.readers.run_folder import files, read
from ada_lightning.audit.records import Options, Row
from research.audit.writers import write_run_folder


def log(folder):
    return read(files(folder), Options())


def test_hinted_groups_are_told_apart_and_are_no_visits(tmp_path):
    rows = [
        Row("here", step, str(slot), index, float(slot == 1 and index == 0), f"p{slot}", 0, num_tokens=3)
        for step in range(2)
        for slot in (0, 1)
        for index in range(4)
    ]
    write_run_folder(rows, tmp_path)
    before = log(tmp_path)
    for path in files(tmp_path):
        table = pd.read_parquet(path).assign(hint=0)
        given = table[table.slot == 1].assign(slot=2**20, prompt_id="p0#2", hint=2)
        pd.concat([table, given]).to_parquet(path)
    with (tmp_path / "prompts.csv").open() as file:
        lines = file.read().splitlines()
    lines = [lines[0] + ",hint", *(line + ",0" for line in lines[1:]), f"0,{2**20},4,2", f"1,{2**20},4,2"]
    lines.append(f"1,{2**20 + 1},0,1")  # what the policy wrote was refused, and nothing drawn
    (tmp_path / "prompts.csv").write_text("\n".join(lines) + "\n")
    after = log(tmp_path)
    assert after.rows == before.rows
    (hole,) = [each for each in after.holes if each not in before.holes]
    assert hole.what == "groups under a hint: 2"
    assert "8 responses, 24 tokens, 2 groups with a signal. They are no visits of their prompts" in hole.consequence
