import math
from pathlib import Path

import pytest

from ada_lightning.analysis.report.headline import Mark, Spread, common_level, headline, marks, spread
from ada_lightning.analysis.report.method import Method, group_runs
from ada_lightning.analysis.report.run import Run
from tests.unit.analysis.report.small_folder import make_run

FINISHED = {"status": "finished"}


def methods(tmp_path, finals, **kwargs):
    """One method per name, a seed per final figure; all start at 0."""
    runs = [
        make_run(
            tmp_path / f"{name}-{seed}",
            experiment=name,
            seed=seed,
            heldout={0: 0.0, 4: final},
            settings={"method": name},
            summary=FINISHED,
            **kwargs,
        )
        for name, of_seed in finals.items()
        for seed, final in enumerate(of_seed)
    ]
    return group_runs(runs)


def column(table, key):
    return next(column for column in table.columns if column.key == key)


def test_the_level_is_the_best_of_the_weakest_run_so_that_all_reach_it(tmp_path):
    compared = methods(tmp_path, {"a": (0.2, 0.4), "b": (0.8, 0.5)})
    table = headline(compared)
    assert table.level == 0.2
    tokens = column(table, "tokens_to_level").figures
    assert [figure.num_seeds for figure in tokens if figure] == [2, 2]
    assert tokens[0] is not None
    assert (tokens[0].low, tokens[0].high) == (pytest.approx(200), pytest.approx(400))


def test_a_level_that_some_seeds_miss_has_no_clear_winner(tmp_path):
    table = headline(methods(tmp_path, {"a": (0.2, 0.4), "b": (0.8, 0.8)}), level=0.3)
    tokens = column(table, "tokens_to_level")
    assert [figure.num_seeds for figure in tokens.figures if figure] == [1, 2]
    assert tokens.marks == [Mark.NONE, Mark.AHEAD]


def test_a_run_that_did_not_finish_does_not_lower_the_level(tmp_path):
    runs = [
        make_run(tmp_path / "a", heldout={0: 0.0, 4: 0.5}, summary=FINISHED),
        make_run(tmp_path / "b", seed=1, heldout={0: 0.0, 2: 0.1}),
    ]
    assert common_level(group_runs(runs)) == 0.5
    assert common_level(group_runs(runs[1:])) == 0.1


def test_a_run_without_evaluations_has_dashes(tmp_path):
    table = headline(group_runs([make_run(tmp_path / "a", num_steps=0)]))
    assert table.level is None
    assert [column.key for column in table.columns if column.figures[0]] == []


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ([(0.1, 0.2), (0.3, 0.4)], [Mark.NONE, Mark.BEST]),
        ([(0.1, 0.3), (0.2, 0.4)], [Mark.NONE, Mark.AHEAD]),  # ranges overlap
        ([(0.1, 0.2), (0.4,)], [Mark.NONE, Mark.AHEAD]),  # a single seed
        ([(0.1, 0.3), (0.2, 0.2)], [Mark.NONE, Mark.NONE]),  # the same mean
        ([(), (0.4, 0.5)], [Mark.NONE, Mark.NONE]),  # nobody to beat
        ([(0.4, 0.5), (0.4, 0.5), (0.1, 0.2)], [Mark.AHEAD, Mark.AHEAD, Mark.NONE]),  # two tie ahead of a third
    ],
)
def test_the_best_is_marked_as_sure_as_it_is(seeds, expected):
    assert marks([spread(of_one) for of_one in seeds], highest=True) == expected
    assert marks([spread([-value for value in of_one]) for of_one in seeds], highest=False) == expected


def test_what_is_no_number_is_no_seed():
    assert spread([math.nan, None, math.inf]) is None
    assert spread([0.5, math.nan]) == Spread(0.5, 0.5, 0.5, 1, None)
    assert spread([0.2, 0.4]) == Spread(pytest.approx(0.3), 0.2, 0.4, 2, pytest.approx(0.1))


def test_there_is_no_price_of_a_level_at_which_a_run_began(tmp_path):
    table = headline(methods(tmp_path, {"a": (0.0, 0.0)}))
    assert table.level is None
    assert "tokens_to_level" not in [column.key for column in table.columns]


@pytest.mark.parametrize(("seeds", "mark"), [((0, 1), Mark.BEST), ((0, 0), Mark.AHEAD)])
def test_the_same_seed_twice_is_no_second_seed(seeds, mark):
    def method(name, after):
        rows = [{"step": 0, "eval/avg_at_4": 0.1, "rollout/generated_tokens": 1.0}, {"step": 1, "eval/avg_at_4": after}]
        runs = (Run(Path(name), {"seed": seed}, rows, {}) for seed in seeds)
        return Method(name, tuple(runs), {})

    assert column(headline([method("a", 0.3), method("b", 0.2)]), "heldout_after").marks == [mark, Mark.NONE]
