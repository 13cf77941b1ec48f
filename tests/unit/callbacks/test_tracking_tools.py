"""Each tracking tool as it is, offline: what a small run left is read back by the tool's own means.

They are extras and no small ones, so a tool that is not installed is left out, with a reason.
"""

from __future__ import annotations

import json
import math
import struct
from functools import partial

import pytest

from ada_lightning.callbacks.curves import Curves
from ada_lightning.callbacks.metrics_csv import MetricsCsv
from ada_lightning.callbacks.objective_statement import FILE as OBJECTIVE
from ada_lightning.callbacks.response_log import ResponseLog
from ada_lightning.callbacks.tensorboard_tracking import TensorBoardTracking
from ada_lightning.callbacks.tracker import is_installed
from ada_lightning.callbacks.trackio_tracking import TrackioTracking
from ada_lightning.callbacks.wandb_tracking import WandbTracking
from tests.unit.callbacks.small_run import Data, Driver

SETTINGS = {"sampler": {"k_pos": 2, "name": "balance"}, "seed": 0, "none": None}


def needs(package):
    return pytest.mark.skipif(
        not is_installed(package), reason=f"{package} is not installed: pip install '.[{package}]'"
    )


@pytest.fixture
def track(tmp_path, fit):
    """Train with a tracker, as a session of a run that may be resumed; returns the folder."""
    folder = tmp_path / "runs" / "mine"

    def session(tracker, *, first_step=0, num_steps=3):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OBJECTIVE).write_text("the update follows log p\n")
        callbacks = [ResponseLog(run_dir=folder, every_n_steps=2), Curves(run_dir=folder)]
        tracker.log_hyperparams(SETTINGS)
        driver = Driver() if not first_step else Driver(scores=(None, 0.75))
        data = Data(first_step=first_step, num_steps=num_steps)
        tracker.log_metrics({"rollout/gap": math.nan}, step=first_step)
        fit(callbacks, loggers=[MetricsCsv(run_dir=folder), tracker], data=data, driver=driver)
        return folder

    return session, folder


@needs("tensorboard")
def test_tensorboard(track, capsys):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    session, folder = track
    tracker = TensorBoardTracking(run_dir=folder, run_name="mine")
    session(tracker)
    assert f"TensorBoard: tensorboard --logdir {folder.parent}" in capsys.readouterr().out
    session(TensorBoardTracking(run_dir=folder, run_name="mine"), first_step=2, num_steps=4)  # from a checkpoint at 2

    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"images": 0, "tensors": 0})
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("eval/avg_at_4")] == [
        (0, pytest.approx(0.05)),
        (4, pytest.approx(0.75)),  # that of step 3 was before the resume, which repeated it: hidden
    ]
    assert math.isnan(events.Scalars("rollout/gap")[0].value)
    image = events.Images("curves")[-1]
    assert (image.width, image.height) > (500, 300)
    assert image.encoded_image_string.startswith(b"\x89PNG")
    texts = [event.tensor_proto.string_val[0].decode() for event in events.Tensors("responses/train/text_summary")]
    assert "### Prompt p" in texts[0]
    assert "**reward 1**" in texts[0]
    assert "    answer 1 — ü" in texts[0]
    objective = events.Tensors("objective/text_summary")[0].tensor_proto.string_val[0]
    assert objective == b"    the update follows log p\n"
    start = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"sampler.k_pos" in start
    assert b"balance" in start


@needs("tensorboard")
def test_the_evaluation_at_which_a_run_had_ended_stays_where_it_goes_on(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for first, last in ((0, 3), (3, 5)):
        loggers = [make(run_dir=tmp_path) for make in (MetricsCsv, partial(TensorBoardTracking, run_name="mine"))]
        loggers[1].log_hyperparams(SETTINGS)
        for step in range(first, last):
            for logger in loggers:
                logger.log_metrics({"train/loss": 1.0 + step}, step=step)
        for logger in loggers:
            logger.log_metrics({"eval/avg_at_4": 0.1 * last}, step=last)
            logger.finalize("success")
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("eval/avg_at_4")]
    assert found == [(3, pytest.approx(0.3)), (5, pytest.approx(0.5))]
    assert [event.step for event in events.Scalars("train/loss")] == [0, 1, 2, 3, 4]


@pytest.mark.long
@needs("wandb")
def test_wandb(track, capsys):
    session, folder = track
    tracker = WandbTracking(run_dir=folder, run_name="mine", project="test", group="sweep", mode="offline")
    session(tracker)
    (kept,) = (folder / "wandb").glob("offline-run-*")
    assert f"Weights & Biases: wandb sync {kept}" in capsys.readouterr().out
    again = WandbTracking(run_dir=folder, run_name="mine", project="test", mode="offline")
    session(again, first_step=3, num_steps=4)

    (resumed,) = set((folder / "wandb").glob("offline-run-*")) - {kept}
    first, second = (list(wandb_records(next(run.glob("*.wandb")))) for run in (kept, resumed))
    (run,) = [record.run for record in first if record.WhichOneof("record_type") == "run"][:1]
    assert (run.project, run.display_name, run.run_group) == ("test", "mine", "sweep")
    config = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in run.config.update}
    assert config["sampler"] == {"k_pos": 2, "name": "balance"}
    rows = [row for records in (first, second) for row in history(records)]
    assert [(row["policy_updates"], row["eval/avg_at_4"]) for row in rows if "eval/avg_at_4" in row] == [
        (0, 0.05), (3, 0.56), (4, 0.75)
    ]  # fmt: skip
    pictures = [row["curves"] for row in rows if "curves" in row]
    assert pictures[0]["_type"] == "image-file"
    assert (kept / "files" / pictures[0]["path"]).read_bytes().startswith(b"\x89PNG")
    tables = [row["responses/train"] for row in history(first) if "responses/train" in row]
    assert [table["_type"] for table in tables] == ["table-file"] * 2  # steps 0 and 2
    table = json.loads((kept / "files" / tables[0]["path"]).read_text())
    assert {"prompt", "text", "reward", "advantage"} <= set(table["columns"])
    assert [row[table["columns"].index("text")] for row in table["data"]][:2] == ["answer 0 — ü", "answer 1 — ü"]
    notes = [record.run.notes for record in first if record.WhichOneof("record_type") == "run"]
    assert "the update follows log p\n" in notes
    assert [record.exit.exit_code for record in first if record.WhichOneof("record_type") == "exit"] == [0]
    assert {record.run.run_id for record in second if record.WhichOneof("record_type") == "run"} == {run.run_id}


@needs("wandb")
def test_wandb_without_an_account_is_written_offline(tmp_path, monkeypatch, caplog, capsys):
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    tracker = WandbTracking(run_dir=tmp_path / "mine", run_name="mine", project="test")
    tracker.log_metrics({"a": 1.0}, step=5)
    tracker.finalize("failed")
    assert "cannot be reached" in caplog.text
    (kept,) = (tmp_path / "mine" / "wandb").glob("offline-run-*")
    assert f"wandb sync {kept}" in capsys.readouterr().out
    records = list(wandb_records(next(kept.glob("*.wandb"))))
    assert [(row["a"], row["policy_updates"]) for row in history(records)] == [(1.0, 5)]
    assert [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"] == [1]


@needs("trackio")
def test_trackio(track, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read as it is imported
    from trackio.sqlite_storage import SQLiteStorage
    from trackio.utils import TRACKIO_DIR

    session, folder = track
    session(TrackioTracking(run_dir=folder, run_name="sweep/0", project="test", group="sweep"))
    assert "Trackio: trackio show --project test" in capsys.readouterr().out
    session(TrackioTracking(run_dir=folder, run_name="sweep/0", project="test"), first_step=3, num_steps=4)

    assert SQLiteStorage.get_runs("test") == ["sweep-0"]
    rows = SQLiteStorage.get_logs("test", "sweep-0")
    assert [(row["step"], row["eval/avg_at_4"]) for row in rows if "eval/avg_at_4" in row] == [
        (0, 0.05), (3, 0.56), (4, 0.75)
    ]  # fmt: skip
    assert SQLiteStorage.get_run_config("test", "sweep-0")["sampler.k_pos"] == 2
    picture = next(row["curves"] for row in rows if "curves" in row)
    assert (TRACKIO_DIR / "media" / picture["file_path"]).read_bytes().startswith(b"\x89PNG")
    table = next(row["responses/train"] for row in rows if "responses/train" in row)["_value"]
    assert [row["text"] for row in table[:2]] == ["answer 0 — ü", "answer 1 — ü"]
    assert table[0]["advantage"] == 0.5
    text = next(row["objective"] for row in rows if "objective" in row)["_value"]
    assert "the update follows log p" in text


def wandb_records(file):
    """Read an offline run: protocol buffers in the frame of LevelDB's log (blocks of 32 KiB, parts with a header)."""
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    wandb.teardown()  # as at the end of a program: until then the file is not whole
    content = file.read_bytes()
    assert content[:4] == b":W&B"
    position, parts, block = 7, b"", 32768
    while position + 7 <= len(content):
        if block - position % block < 7:
            position += block - position % block
            continue
        _, length, kind = struct.unpack("<IHB", content[position : position + 7])
        parts += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def history(records):
    """Rows as they were logged; what stands for a file has keys of its own."""
    for record in records:
        if record.WhichOneof("record_type") == "history":
            row = {}
            for item in record.history.item:
                *outer, name = item.nested_key or [item.key]
                node = row.setdefault(outer[0], {}) if outer else row
                node[name] = json.loads(item.value_json)
            yield row
