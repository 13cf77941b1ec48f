"""``python -m ada_lightning.audit`` from a log to its page."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ada_lightning.audit.command import main
from research.audit.synthetic import Population, draw
from research.audit.writers import WRITERS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    rows = draw(Population(num_prompts=60, num_steps=2, group_size=16), 0).rows
    WRITERS["trl"](rows, folder / "trl")
    WRITERS["verl"](rows, folder / "verl")
    return folder


def test_two_logs_become_one_page_that_needs_nothing_else(logs, tmp_path, capsys):
    page = tmp_path / "both.html"
    main([str(logs / "trl"), str(logs / "verl"), "--output", str(page)])
    text, out = page.read_text(), capsys.readouterr().out
    assert text.count('<section class="log">') == 2
    assert text.count("<svg") == 6
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/", "")
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert [log["format"] for log in numbers] == ["TRL", "verl"]
    share = numbers[0]["figures"]["no_gradient"]
    sentence = (
        f"{100 * share['value']:.0f} % [{100 * share['low']:.0f}, {100 * share['high']:.0f}] of all tokens gave no"
    )
    assert sentence in text
    assert sentence in out
    assert "--tokenizer" in out  # what closes a hole of verl's
    assert "extrapolated" in out


def test_a_packed_file_is_named_with_its_way_out(tmp_path):
    file = tmp_path / "1.jsonl.gz"
    file.write_bytes(gzip.compress(b"{}"))
    with pytest.raises(SystemExit, match=r"1\.jsonl\.gz is packed; unpack it first"):
        main([str(file), "--output", str(tmp_path / "page.html")])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "error: nothing does not exist"),
        (["x", "--output", "page.txt"], "must end in .html"),
        (["x", "--output", "."], "must end in .html"),
        (["x", "--reward", "a=1", "--reward", "a=5"], "--reward a is given twice; give each name once"),
        (["x", "--reward", "accuracy=much"], "must be NAME or NAME=WEIGHT"),
        (["x", "--reward", "accuracy=nan"], "must be NAME or NAME=WEIGHT with a finite number"),
        (["x", "--positive-above", "nan"], "nan must be a finite number"),
        (["x", "--positive-above", "high"], "high must be a finite number"),
        (["x", "--group-size", "0"], "must be a whole number of at least 1"),
        (["x", "--max-gib", "-1"], "must be a number above 0"),
        (["x", "--tokenizer", "no.json"], "no.json does not exist"),
    ],
)
def test_what_cannot_be_is_refused_with_a_way_out(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert message in capsys.readouterr().err + str(stopped.value)
    assert not list(tmp_path.iterdir())


def test_the_page_of_the_docs_shows_what_its_command_prints(monkeypatch, tmp_path, capsys):
    """Mend the page after a change of the words: its block is what stands here, abridged."""
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    command, shown = re.search(r"```bash\nada audit (\S+) .*?```text\n(.*?)```", page, re.DOTALL).groups()
    monkeypatch.chdir(ROOT)
    main([command, "--output", str(tmp_path / "audit.html")])
    printed = capsys.readouterr().out
    places = [printed.index(part) for part in shown.split("...\n")]
    assert len(places) == 2
    assert places == sorted(places)


def test_it_is_a_command(tmp_path):
    run = [sys.executable, "-m", "ada_lightning.audit", "--help"]
    assert "folders that a trainer wrote" in subprocess.run(run, cwd=ROOT, capture_output=True, text=True).stdout


def test_a_folder_is_no_page(tmp_path, capsys):
    (folder := tmp_path / "page.html").mkdir()
    with pytest.raises(SystemExit):
        main(["x", "--output", str(folder)])
    assert "page.html is a folder; name a file for the page" in capsys.readouterr().err
