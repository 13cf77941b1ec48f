"""What the page on choosing a method shows is what the sums say, and its script finds it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from research.benchmarks.simulation.pass_rates import MIXES, Mix
from research.studies import choose
from research.studies.runs import StudyRun
from research.studies.when_to_use import GRPO, SHOWN, Case, cases

FIGURES = json.loads(choose.FILE.read_text())
RULE_OF = {experiment: rule for rule, experiment in SHOWN.items()}
SCRIPT = choose.FILE.with_name("choose.js")


def test_the_named_mixes_have_the_figures_of_the_page_on_when_it_pays():
    known = {case.name: case for case in cases()}
    named = [mix for mix in FIGURES["mixes"] if mix["name"]]
    assert [mix["name"] for mix in named] == list(choose.NAMED.values())
    for mix in named:
        expected = [value for rule in (*GRPO, *SHOWN) for value in known[mix["name"]].spent[rule]]
        assert [value for pair in mix["spent"] for value in pair] == pytest.approx(expected, rel=1e-3)  # four digits


def test_a_mix_of_the_file_is_what_the_sums_say_now():
    index = len(choose.NAMED) + 62
    name, mix = list(choose.mixes())[index]
    content = choose.figures([(name, mix)])
    assert FIGURES["mixes"][index] == json.loads(json.dumps(content["mixes"]))[0]
    assert len(FIGURES["mixes"]) == len(list(choose.mixes()))
    assert FIGURES["experiments"] == content["experiments"]


def test_counts_of_right_responses_are_those_of_the_mix():
    seen = choose.seen(Mix(0.25, 0.0, 1.0, 1.0))  # a uniform pass rate: every count is as likely
    assert seen == pytest.approx([0.25 + 0.75 / 17, *[0.75 / 17] * 16], abs=2e-4)  # 400 quantiles


@pytest.mark.parametrize(
    ("history", "balance", "low_and_alike", "taken"),
    [
        ((0.5, 2.0), (9.0, 9.0), False, [(0.0, "ada"), (0.5, "grpo")]),  # 0.5 + 2 c against 1 + c
        ((9.0, 9.0), (1.4, 0.5), True, [(0.0, "grpo"), (1.25, choose.BALANCE)]),  # 1.4 + c / 2 < 0.9 (1 + c)
        ((9.0, 9.0), (1.4, 0.5), False, [(0.0, "grpo")]),
        ((0.5, 0.5), (0.1, 0.1), True, [(0.0, "ada")]),  # what runs bear out comes first
    ],
)
def test_ada_is_taken_where_it_costs_less_and_seq_balance_where_it_saves_a_tenth_of_low_and_alike(
    history, balance, low_and_alike, taken
):
    spent = dict.fromkeys(GRPO, (1.0, 1.0)) | {RULE_OF[choose.HISTORY]: history, RULE_OF[choose.BALANCE]: balance}
    found = choose.decisions(Case("case", spent), low_and_alike)
    assert [experiment for _, experiment in found] == [experiment for _, experiment in taken]
    ratio = choose.PRICES[1] / choose.PRICES[0]  # a change is seen at the next price of the grid
    for (price, _), (expected, _) in zip(found, taken, strict=True):
        assert expected <= price <= expected * ratio * (1 + 1e-9)


@pytest.mark.parametrize(("mix", "expected"), [("step 50", True), ("step 400", False), ("wide", False)])
def test_only_low_and_alike_is_low_and_alike(mix, expected):
    assert choose.is_low_and_alike(MIXES[mix]) is expected


def run_script(body):
    if shutil.which("node") is None:
        pytest.skip("the page's script needs node to be run outside of a browser")
    program = f"const choose = require({json.dumps(str(SCRIPT))});"
    program += f"const figures = require({json.dumps(str(choose.FILE))});"
    program += f"process.stdout.write(JSON.stringify({body}));"
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_script_reads_the_table_of_prepare_and_rates_and_refuses_the_rest():
    table = "  positive  prompts  selected\n   0   359     0  ------\n   1   106   106  ###\n"
    counts, rates, *problems = run_script(
        f"[choose.parse({json.dumps(table)}, 16), choose.parse('0.5, 1 0.07', 16),"
        "...['', '0.2 abc', '0 3\\n17 4'].map((text) => {"
        "try { return choose.parse(text, 16); } catch (error) { return error.message; } })]"
    )
    assert counts == [359, 106, *[0] * 15]
    assert [index for index, count in enumerate(rates) if count] == [1, 8, 16]
    assert [problem.split()[0] for problem in problems] == ["No", "abc", "17"]


def test_the_script_finds_each_mix_again_and_its_costs_and_advice():
    names = list(choose.NAMED.values())
    found = run_script(
        "figures.mixes.slice(0, 3).map((mix) => {"
        "const counts = mix.seen.map((share) => Math.round(1e4 * share));"
        "const same = choose.likeliest(figures.mixes, counts);"
        "return [same.name, choose.costs(figures, same, 3), [0.1, 3].map("
        "(ratio) => choose.advice('many', 'no', 'mean', same, ratio).take)]; })"
    )
    assert [name for name, _, _ in found] == names
    for (name, costs, _), case in zip(found, cases(), strict=False):
        assert name == case.name
        for cost in costs[len(GRPO) :]:
            assert cost["cost"] == pytest.approx(case.cost(RULE_OF[cost["name"]], 3.0), rel=1e-3)
    advised = {name: takes for name, _, takes in found}
    assert advised["low and alike"] == ["grpo", choose.BALANCE]
    assert advised["wide"] == ["ada data.num_minibatches=4 data.prompts_per_step=128"] * 2


@pytest.mark.long
def test_everything_that_is_advised_can_be_run(composed):
    advised = run_script(
        "[choose.SITUATIONS, choose.MANY].flatMap((each) => Object.values(each)).map((one) => one.take)"
    )
    decided = {experiment for mix in FIGURES["mixes"] for _, experiment in mix["take"]}
    assert decided <= set(run_script("Object.keys(choose.MANY)"))
    for take in {*advised, *FIGURES["experiments"]}:
        experiment, *overrides = take.split()
        composed(StudyRun("study", experiment, 0, tuple(overrides)))


ROWS = {
    "many-words": "| seen often, the text tells |",
    "few": "| seen a few times |",
    "once-words": "| seen once, the text tells |",
    "dear": "| seen often, the text tells, training is dear |",
    "once-alike": "| seen once, all prompts read alike |",
    "other": "| another objective: log p, pass@k |",
}


@pytest.mark.parametrize(("situation", "row"), ROWS.items(), ids=ROWS)
def test_where_calculations_do_not_decide_the_advice_is_that_of_the_page_on_when_it_pays(situation, row):
    take = run_script(f"choose.SITUATIONS[{json.dumps(situation)}].take")
    (line,) = [line for line in (choose.DOCS / "when_to_use.md").read_text().splitlines() if row in line]
    advised = line.split("|")[2]
    assert f"`{take.split()[0]}" in advised
    assert all(word in advised for word in take.split()[1:])


def test_every_situation_of_the_page_is_known_to_its_script():
    page = choose.FILE.with_name("index.md").read_text()
    visits, words, aims = ["once", "few", "many"], ["yes", "no"], ["mean", "other"]
    assert re.findall(r'<option value="([\w-]+)"', page) == [*visits, *words, *aims]
    assert set(run_script("Object.keys(choose.SITUATIONS)")) == set(ROWS)
    assert set(re.findall(r'data-mix="([^"]+)"', page)) == set(choose.NAMED.values())
    assert f"likeliest of {len(FIGURES['mixes'])} distributions" in page
    taken = run_script(
        f"{json.dumps(visits)}.flatMap((visit) => {json.dumps(words)}.flatMap((word) => [0.5, 20].flatMap((ratio) =>"
        f"{json.dumps(aims)}.map((aim) => choose.advice(visit, word, aim, figures.mixes[2], ratio).take))))"
    )
    assert len(taken) == len(visits) * len(words) * len(aims) * 2
    assert all(taken)


PATHS = [  # of the tree, from its top: how often prompts are seen, whether the text tells, the cost ratio
    *[("once", "yes", 1.0), ("once", "no", 1.0), ("few", "yes", 1.0)],
    *[("many", "yes", 0.9), ("many", "yes", 1.1)],
]


def test_the_tree_and_the_script_advise_the_same():
    """Where prompts come back and nothing tells, the tree has one bound for all; the script has each distribution's."""
    picture = choose.FILE.with_name("tree.svg").read_text()
    leaves = re.findall(r'font-family="Menlo[^>]*>(\w+)</text>', picture)
    advised = run_script(
        f"{json.dumps(PATHS)}.map(([visits, words, ratio]) => choose.advice(visits, words, 'mean', null, ratio).take)"
    )
    assert leaves == [*(take.split()[0] for take in advised), "ada", "grpo"]
