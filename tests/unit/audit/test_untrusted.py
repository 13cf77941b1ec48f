"""Files that want more than to be read."""

from __future__ import annotations

import json
import os
import pickle
import zipfile

import pandas as pd
import pytest
import torch

from ada_lightning.audit.command import main
from ada_lightning.audit.readers.find import read_logs
from ada_lightning.audit.records import Options
from ada_lightning.audit.untrusted import Limits, RefusedFileError
from research.audit.synthetic import Population, draw
from research.audit.writers import WRITERS

VERL = {"input": "q", "output": "a", "gts": "1", "score": 1.0, "step": 1, "uid": "u_0_0"}


class Runs:
    """Writes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def refused(path, options=None):
    with pytest.raises(RefusedFileError) as caught:
        read_logs([path], options or Options())
    return str(caught.value)


def verl_file(tmp_path, *lines):
    path = tmp_path / "1.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("name", ["0.pt", "log.pkl", "log.pth"])
@pytest.mark.parametrize("is_archive", [True, False])
def test_nothing_is_unpickled(name, is_archive, tmp_path):
    content = {"rollout_id": 0, "samples": [Runs(tmp_path / "ran")]}
    if is_archive:
        torch.save(content, tmp_path / name)
    else:
        (tmp_path / name).write_bytes(pickle.dumps(content))
    message = refused(tmp_path / name)
    assert not (tmp_path / "ran").exists()
    assert "could run code" in message or "a bare pickle is not read" in message
    pickle.loads(pickle.dumps(content))  # the file would have
    assert (tmp_path / "ran").exists()


def test_an_archive_that_is_packed_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "0.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0/data.pkl", b"0" * 10_000_000)
    assert "as torch.save never packs" in refused(tmp_path / "0.pt")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000 + "\n", "line 1 is not JSON (RecursionError)"),
        ("[1]\n", "line 1 is not a JSON object"),
        ("{nonsense}\n", "line 1 is not JSON (JSONDecodeError)"),
        (VERL | {"score": float("inf")}, "score is no finite number"),
        (VERL | {"score": 10**400}, "score is no finite number"),
        (VERL | {"score": "1"}, "score is no finite number"),
        (VERL | {"step": 1.5}, "step is no whole number"),
        (VERL | {"step": None}, "has no step"),
        (VERL | {"uid": "u"}, "uid is not <group>_<response>_<output>"),
        ({"schema_version": 2, "group_idx": 0, "traj_idx": 0, "total_reward": 0}, "has a schema other than 1"),
        ({"x": "\x1b[31m"}, "is in no format that a reader knows"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_lines_that_are_no_log(line, message, tmp_path):
    found = refused(verl_file(tmp_path, line))
    assert message in found
    assert "\x1b" not in found


def test_a_last_line_that_a_kill_cut_is_left_out(tmp_path):
    path = verl_file(tmp_path, VERL, VERL | {"uid": "u_1_0"}, '{"input": "q", "outp')
    ((_, log),) = read_logs([path], Options())
    assert len(log.rows) == 2


def test_sizes_are_limited(tmp_path):
    path = verl_file(tmp_path, VERL | {"output": "a" * 5000}, VERL | {"uid": "u_1_0"})
    assert "line 1 is longer" in refused(path, Options(limits=Limits(max_line_bytes=1000)))
    assert "more than the" in refused(path, Options(limits=Limits(max_bytes=1000)))
    assert "more than 1 responses" in refused(path, Options(limits=Limits(max_rows=1)))


def test_a_table_that_unpacks_to_more_than_it_says_is_refused(tmp_path):
    rows = {"step": 1, "prompt": "q" * 100_000, "completion": "a", "advantage": 0.0, "accuracy": 1.0}
    path = tmp_path / "completions_00001.parquet"
    pd.DataFrame([rows] * 2000).to_parquet(path)  # 200 MB in a file of some KB
    assert path.stat().st_size < 200_000
    assert "unpacks to more than" in refused(path, Options(limits=Limits(max_bytes=50_000_000)))
    path.write_bytes(b"PAR1" + b"\0" * 100)
    assert "cannot be read as a Parquet file" in refused(path)


def test_pipes_and_missing_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "1.jsonl")
    assert "is not a plain file" in refused(tmp_path / "1.jsonl")
    assert "does not exist" in refused(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert "has no files that a reader knows" in refused(tmp_path / "empty")


def test_settings_of_a_run_are_plain_yaml(tmp_path):
    WRITERS["ada"](draw(Population(2, 1, 4), 0).rows, tmp_path)
    (tmp_path / "config.yaml").write_text(f"sampler: !!python/object/apply:os.mkdir [{tmp_path / 'ran'}]\n")
    assert "is no YAML" in refused(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_page_cannot_be_written_into(tmp_path, capsys):
    folder = tmp_path / "<script>alert(1)<\\script>\x1b[2J"
    folder.mkdir()
    WRITERS["verl"](draw(Population(3, 1, 4), 0).rows, folder)
    main([str(folder), "--output", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text()
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "\x1b" not in page + capsys.readouterr().out
