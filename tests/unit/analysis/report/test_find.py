import pytest

from ada_lightning.analysis.report.run import find_runs
from tests.unit.analysis.report.small_folder import write_run


@pytest.fixture
def runs_dir(tmp_path):
    folder = tmp_path / "runs"
    write_run(folder / "grpo-1")
    write_run(folder / "grpo-2")
    write_run(folder / "sweep" / "0")
    write_run(folder / "sweep" / "1")
    return folder


def names(arguments, runs_dir):
    return [run.path.name for run in find_runs(arguments, runs_dir=runs_dir)[0]]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["{}/grpo-2"], ["grpo-2"]),
        (["grpo-2"], ["grpo-2"]),
        (["{}/grpo-*"], ["grpo-1", "grpo-2"]),
        (["grpo-?"], ["grpo-1", "grpo-2"]),
        (["sweep"], ["0", "1"]),
        (["sweep/1"], ["1"]),
        (["grpo-1", "{}", "sweep"], ["grpo-1", "grpo-2", "0", "1"]),  # each once
    ],
)
def test_a_folder_a_name_a_pattern_and_a_sweep_are_found(runs_dir, arguments, found):
    assert names([argument.format(runs_dir) for argument in arguments], runs_dir) == found


def test_checkpoints_of_a_run_are_not_searched(runs_dir):
    write_run(runs_dir / "grpo-1" / "checkpoints" / "copy")
    assert names(["grpo-1"], runs_dir) == ["grpo-1"]
    assert "copy" not in names([str(runs_dir)], runs_dir)


@pytest.mark.parametrize("missing", ["config.yaml", "metrics.csv"])
def test_a_folder_that_is_no_run_says_what_it_lacks(runs_dir, missing):
    (runs_dir / "grpo-1" / missing).unlink()
    with pytest.raises(ValueError, match=rf"grpo-1 is no run folder: it has no {missing}"):
        find_runs(["grpo-1"], runs_dir=runs_dir)


def test_what_a_pattern_matches_and_is_no_run_is_left_out_with_a_remark(runs_dir):
    """Whether the shell or the program replaces the pattern."""
    (runs_dir / "custom-1").mkdir()
    (runs_dir / "custom-1" / "multirun.yaml").touch()
    (runs_dir / "train.log").touch()
    by_shell = [str(path) for path in sorted(runs_dir.glob("*"))]
    for arguments in (by_shell, [str(runs_dir / "*")]):
        runs, left_out = find_runs(arguments, runs_dir=runs_dir)
        assert [run.path.name for run in runs] == ["grpo-1", "grpo-2", "0", "1"]
        assert left_out[0].startswith(f"{runs_dir / 'custom-1'} is no run folder: it has no config.yaml")
    assert find_runs(by_shell, runs_dir=runs_dir)[1][1:] == [f"{runs_dir / 'train.log'} is a file"]


def test_a_name_of_nothing_is_an_error_beside_real_runs_and_all_are_told_at_once(runs_dir):
    with pytest.raises(ValueError, match=r"^grpo-3 is not a folder, .*$"):
        find_runs(["grpo-1", "grpo-3", str(runs_dir / "sweep")], runs_dir=runs_dir)
    (runs_dir / "empty").mkdir()
    messages = r"(?s)nothing is no folder.*empty is no run folder.*no config.yaml and no metr"
    with pytest.raises(ValueError, match=messages):
        find_runs(["nothing", "empty"], runs_dir=runs_dir)


def test_the_rest_of_a_run_in_a_sweep_is_left_out_and_mentioned(runs_dir):
    (runs_dir / "sweep" / "1" / "metrics.csv").unlink()
    runs, skipped = find_runs(["sweep"], runs_dir=runs_dir)
    assert [run.path.name for run in runs] == ["0"]
    assert skipped == [f"{runs_dir / 'sweep' / '1'}: it has no metrics.csv"]
