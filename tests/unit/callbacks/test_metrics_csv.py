import itertools
import math
import multiprocessing
import signal
import time

import pytest

from ada_lightning.callbacks.metrics_csv import MetricsCsv, read_metrics
from ada_lightning.run.metrics_file import read_cells, read_cells_since


@pytest.fixture
def logger(tmp_path):
    return MetricsCsv(run_dir=tmp_path)


def shown(logger):
    """The file without the times of its rows, which are those of the clock."""
    columns, rows = read_cells(logger.path)
    assert all(abs(int(row["unix_ms"]) / 1000 - time.time()) < 3600 for row in rows)
    lines = [columns, *(list(row.values()) for row in rows)]
    return "".join(",".join(line[:1] + line[2:]) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([({"a": 1.5}, 0), ({"b": 2}, 0), ({"a": 3.0}, 1)], "step,a,b\n0,1.5,2\n1,3,\n"),  # a step has one row
        ([({"a": 1.0}, 4), ({"a": 2.25}, 4), ({"a": 3.0}, 4)], "step,a\n4,3\n"),  # the last value counts
        (  # an earlier step is merged where it belongs
            [({"a": 1.0, "eval": 0.1}, 0), ({"eval": 0.2}, 2), ({"a": 2.0}, 1), ({"a": 3.0}, 2)],
            "step,a,eval\n0,1,0.1\n1,2,\n2,3,0.2\n",
        ),
    ],
)
def test_every_call_is_on_disk_in_the_row_of_its_step(logger, calls, expected):
    for metrics, step in calls:
        logger.log_metrics(metrics, step=step)
        assert read_metrics(logger.path)[-1].items() >= (metrics if step == max(s for _, s in calls) else {}).items()
    assert shown(logger) == expected


def test_new_column_is_empty_in_older_rows_and_not_a_number_survives(logger):
    assert read_metrics(logger.path) == []
    logger.log_metrics({"a": 1.0}, step=0)
    logger.log_metrics({'odd, "name"': math.nan}, step=1)
    first, second = read_metrics(logger.path)
    assert first == {"step": 0, "a": 1.0}
    assert math.isnan(second['odd, "name"'])


def test_resume_drops_the_steps_it_repeats_but_for_the_evaluation_before_the_first(tmp_path, logger):
    for step in range(6):
        logger.log_metrics({"eval/avg_at_4": 0.1 * step, "eval_average/avg_at_4": 0.5}, step=step)
        logger.log_metrics({"a": float(step), "alarm/x": 1.0}, step=step)
    resumed = MetricsCsv(run_dir=tmp_path)
    resumed.log_metrics({"a": 7.0, "b": 7.0}, step=3)
    rows = read_metrics(resumed.path)
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert rows[3] == {"step": 3, "eval/avg_at_4": 0.3, "eval_average/avg_at_4": 0.5, "a": 7.0, "b": 7.0}
    assert rows[2]["alarm/x"] == 1.0


def test_line_cut_off_by_a_kill_is_ignored_and_then_replaced(tmp_path, logger):
    logger.log_metrics({"a": 1.0}, step=0)
    with logger.path.open("a") as file:
        file.write("1,2.3")
    assert len(read_metrics(logger.path)) == 1
    MetricsCsv(run_dir=tmp_path).log_metrics({"a": 5.0}, step=1)
    assert shown(logger) == "step,a\n0,1\n1,5\n"


def log_for_ever(folder):
    logger = MetricsCsv(run_dir=folder)
    for step in itertools.count():
        for name in ("a", f"b{step // 400}", "c"):
            logger.log_metrics({name: 1 / (step + 3)}, step=step)


def test_killed_process_leaves_a_readable_file(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=log_for_ever, args=(tmp_path,))
    process.start()
    file = tmp_path / "metrics.csv"
    while process.is_alive() and (not file.exists() or file.stat().st_size < 20_000):
        time.sleep(0.02)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    rows = read_metrics(file)
    assert [row["step"] for row in rows] == list(range(len(rows)))
    assert all(row["a"] == pytest.approx(1 / (row["step"] + 3)) for row in rows)


def test_lightning_writes_a_row_per_step(fit, tmp_path):
    fit([], loggers=[MetricsCsv(run_dir=tmp_path)])
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert (rows[0]["eval/avg_at_4"], rows[0]["train/loss"]) == (0.05, 2.0)


@pytest.mark.parametrize("step", [0, 1, 4999, 5000, 5001])
def test_the_end_of_a_file_is_what_the_whole_says(logger, step):
    """5,001 rows are more than one block; the last line is cut."""
    header = "step,unix_ms,a,b\n"
    logger.path.write_text(header + "".join(f"{row},1,{row / 3:.9g},\n" for row in range(5001)) + "5001,2,0.")
    assert read_cells_since(logger.path, step) == read_cells(logger.path)[1][step:]
