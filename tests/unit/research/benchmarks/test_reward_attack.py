"""A small attack; the large one is ``python -m research.benchmarks.reward_attack``."""

from pathlib import Path

import pytest

from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import LastBoxed
from ada_lightning.rewards.function import FunctionReward
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.numeric import NumericReward
from research.benchmarks.attack.families import CANARY, FAMILIES, Case, hostile
from research.benchmarks.attack.judged import JUDGED, judged
from research.benchmarks.attack.misbehaviour import ORDERS
from research.benchmarks.attack.watch import Watched
from research.benchmarks.reward_attack import attack, numeric, orders, ordinary, without_known_rights


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder of its own, where code that runs would leave its traces; workers still import from here."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[4]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Gullible:
    """What must never be: runs the text as Python."""

    def __call__(self, prompt, completion):
        return float(eval(completion.text))


def summed(run, name):
    return sum(getattr(tally, name) for tally in run.tallies)


def test_hostile_responses_do_not_hang_run_or_deceive_math(elsewhere):
    cases = [*hostile(300, seed=5), *ordinary(60, seed=5)]
    run = attack("math", Watched(MathReward(), (("x+1", r"\boxed{1+x}"),)), cases, time_limit_s=20.0)
    assert run.num_responses == 360
    assert [found for tally in run.tallies for found in tally.wrong] == []
    assert summed(run, "known_verdicts") > 300
    assert summed(run, "watched") == 360
    assert summed(run, "lost") == summed(run, "executed") == 0
    assert not any(tally.failures for tally in run.tallies)
    assert list(elsewhere.iterdir()) == []


def test_hostile_responses_do_not_hang_run_or_deceive_exact_matching(elsewhere):
    cases = without_known_rights(hostile(150, seed=6))
    run = attack("exact", Watched(ExactMatchReward(LastBoxed())), cases, time_limit_s=20.0)
    assert [found for tally in run.tallies for found in tally.wrong] == []
    assert summed(run, "lost") == summed(run, "executed") == 0
    assert list(elsewhere.iterdir()) == []


def test_answers_judged_by_hand_deceive_neither_math_nor_numeric(elsewhere):
    """Math and numbers are judged by the same pairs; both kinds of mistakes are none."""
    cases = list(judged(1500, seed=7))
    assert {case.family for case in cases} == {make.__name__.replace("_", " ") for make in JUDGED}
    for reward, some in ((MathReward(), cases), (NumericReward(LastBoxed(), relative_tolerance=1e-6), numeric(cases))):
        run = attack("judged", reward, some, time_limit_s=20.0)
        assert [found for tally in run.tallies for found in tally.wrong] == []
        assert min(summed(run, "known_wrong"), summed(run, "known_verdicts") - summed(run, "known_wrong")) > 100
        assert not any(tally.failures for tally in run.tallies)


def test_a_misbehaving_function_hurts_no_other_response():
    quick = [case for case in orders(len(ORDERS), seed=0) if "endless" not in case.text and case.text != "os._exit(0)"]
    run = attack("function", FunctionReward("research.benchmarks.attack.misbehaviour.obey"), quick, time_limit_s=10.0)
    by_family = {tally.family: tally for tally in run.tallies}
    ordinary_ones = by_family["function: ordinary"]
    assert (ordinary_ones.false_negatives, ordinary_ones.known_verdicts) == (0, 2 * len(ORDERS))
    assert summed(run, "lost") == 0
    assert by_family["function: segmentation fault"].failures == {"crash": 1}
    assert by_family["function: recursion"].failures == {"RecursionError": 1}
    assert by_family["function: a list"].failures == {"invalid_reward": 1}


def test_the_attack_sees_a_wrong_verdict_and_code_that_runs(elsewhere):
    cases = [Case("code", "", f"open({CANARY!r}, 'w').write('1')", 0.0), Case("sum", "", "1+1", 2.0)]
    run = attack("gullible", Watched(Gullible()), cases, time_limit_s=20.0)
    assert summed(run, "executed") == 2
    assert (summed(run, "false_positives"), summed(run, "false_negatives")) == (1, 0)
    assert [path.name for path in elsewhere.iterdir()] == [CANARY]


@pytest.mark.parametrize(
    "text",
    [
        "1+1",
        "__import__('os').system('true')",
        "open('file', 'w').close() or 1",
        "__import__('subprocess').call('true')",
    ],
)
def test_the_watch_notices_what_a_reward_runs(text, elsewhere):
    watched = Watched(Gullible())
    watched.check()
    assert watched(Prompt("id", ()), Completion(text)).components["audit_events"] > 0


def test_the_watch_ignores_modules_that_are_loaded_late():
    class Late:
        def __call__(self, prompt, completion):
            import this  # noqa: F401

            return 1.0

    watched = Watched(Late())
    watched.check()
    assert watched(Prompt("id", ()), Completion("")).components["audit_events"] == 0


def test_equal_seeds_attack_equally_and_every_family_takes_part():
    num = 2 * len(FAMILIES)
    assert list(hostile(num, seed=1)) == list(hostile(num, seed=1)) != list(hostile(num, seed=2))
    assert len({case.family for case in hostile(num, seed=1)}) == len(FAMILIES)


def test_hostile_texts_carry_code_surrogates_and_a_hundred_thousand_characters():
    texts = [case.text for case in hostile(600, seed=3)]
    assert any(CANARY in text for text in texts)
    assert max(map(len, texts)) >= 100_000
    assert any("\ud800" in text for text in texts)
    assert any("\x00" in text for text in texts)
