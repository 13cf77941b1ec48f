import contextlib
import itertools
import json
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import AnswerLine, FirstOf, LastBoxed, LastNumber, WholeResponse
from ada_lightning.rewards.latex import compare, symbolic
from ada_lightning.rewards.latex.cost import CpuBudget, CpuBudgetError
from ada_lightning.rewards.latex.grammar import read
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.numeric import NumericReward

_OPERATIONS = [
    ("{a}+{b}", lambda a, b: a + b),
    ("{a} - {b}", lambda a, b: a - b),
    (r"{a} \times {b}", lambda a, b: a * b),
    ("{a}({b})", lambda a, b: a * b),
    (r"\frac{{{a}}}{{{b}}}", lambda a, b: a / b),
    (r"({a}) \cdot ({b}) + 0", lambda a, b: a * b),
]
_FORMS = [
    str,
    lambda n: f"{n:,}",
    lambda n: f"{n:,}".replace(",", "{,}"),
    lambda n: f"{n:,}".replace(",", r"\,"),
    lambda n: f"{n}.0",
    lambda n: f"x = {n}",
    lambda n: f"{n} = x",
    lambda n: f"**{n}**",
    lambda n: rf"\textcolor{{red}}{{{n}}}",
    lambda n: rf"\underline{{{n}}} \text{{ apples}}",
    lambda n: f"${n}$.",
    lambda n: f"({n})",
    lambda n: rf"{n} \times 10^0",
    lambda n: rf"\text{{Total}} = {n - 1} + 1 = {n} \text{{ centimetres}}",
]
PAIRS = [json.loads(line) for line in (Path(__file__).parent / "answer_pairs.jsonl").read_text().splitlines()]
"""Pairs of a gold answer and a given one, judged by hand; each line of the file says why."""
KINDS = [json.loads(line) for line in (Path(__file__).parent / "answer_kinds.jsonl").read_text().splitlines()]
"""Gold answers by the kind of answer, each with right and wrong ones beside it."""


def verdict(gold, text, **arguments):
    return MathReward(**arguments)(Prompt("id", (), {"answer": gold}), Completion(text))


def is_right(pair):
    return verdict(pair["gold"], pair["answer"], extraction=WholeResponse()).reward == 1.0


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (r"first \boxed{41}, then \boxed{42}", 1.0),
        (r"first \boxed{42}, then \boxed{41}", 0.0),
        (r"\boxed{\boxed{42}}", 1.0),
        (r"\boxed{42} and \boxed{4", 1.0),
        (r"it is 42", 0.0),
        (r"\boxed{}", 0.0),
        ("", 0.0),
    ],
)
def test_the_last_closed_box_counts(text, reward):
    assert verdict("42", text).reward == reward


def test_another_extraction_may_find_the_answer():
    chain = FirstOf([LastBoxed(), LastNumber()])
    assert verdict("42", "it is 42", extraction=chain).reward == 1.0
    assert verdict("42", r"\boxed{41}, not 42", extraction=chain).reward == 0.0


@pytest.mark.parametrize(
    ("text", "keep", "ignore", "opened"),
    [
        (r"<think>\boxed{42}</think> It is \boxed{41}.", 0.0, 0.0, 0.0),
        (r"<think>\boxed{41}</think> It is \boxed{42}.", 1.0, 1.0, 1.0),
        (r"<think>\boxed{42}</think> It is 42.", 1.0, 0.0, 0.0),
        (r"<think>It may be \boxed{42}", 1.0, 0.0, 0.0),
        (r"It may be \boxed{42}</think> It is 42.", 1.0, 0.0, 0.0),
        (r"It may be \boxed{42}", 1.0, 1.0, 0.0),
    ],
)
def test_an_answer_inside_of_the_thinking_may_count_or_not(text, keep, ignore, opened):
    assert verdict("42", text).reward == keep
    found = [verdict("42", text, thinking=thinking).reward for thinking in ("keep", "ignore", "opened")]
    assert found == [keep, ignore, opened]
    with pytest.raises(ValueError, match="thinking must be keep, ignore or opened; got 'drop'"):
        MathReward(thinking="drop")


@pytest.mark.parametrize(
    ("gold", "text", "reward"),
    [
        ("3,4", r"So $x=\boxed{3}$ or $x=\boxed{4}$.", 1.0),
        ("3,4", r"So $x=\boxed{3}$ or $x=\boxed{5}$.", 0.0),
        ("x=1,y=2", r"$\boxed{x=1}$, $\boxed{y=2}$", 1.0),
        ("4", r"$\boxed{3}$ or $\boxed{4}$", 0.0),
        ("4", "Is it \\boxed{3}?\n\nNo, \\boxed{4}.", 1.0),
    ],
)
def test_several_boxes_may_be_a_list(gold, text, reward):
    assert verdict(gold, text, extraction=LastBoxed(several="list")).reward == reward


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("It is 3.\nAnswer: $\\dfrac{3}{4}$", 1.0),
        ("Answer: 0.75", 1.0),
        ("**Answer:** 3/4.", 1.0),
        ("Answer: 3/4\nAnswer: 4", 0.0),
        (r"\boxed{3/4}", 0.0),
    ],
)
def test_an_answer_line_may_hold_the_answer(text, reward):
    assert verdict(r"\frac{3}{4}", text, extraction=AnswerLine()).reward == reward


@pytest.mark.parametrize("reward", [MathReward(), NumericReward(LastNumber()), ExactMatchReward(LastNumber())])
@pytest.mark.parametrize(
    ("gold", "pattern"),
    [
        ("48/2 = <<48/2=24>>24 clips in May.\n#### 72", r'"#### \(\.\*\)"'),
        ("x" * 1200 + "\n#### 72", r'"#### \(\.\*\)"'),
        ("There are 3+4 of them.\nThe answer is: 7", r'"The answer is: \(\.\*\)"'),
    ],
)
def test_a_gold_answer_that_is_a_whole_solution_names_what_takes_the_answer_out_of_it(reward, gold, pattern):
    with pytest.raises(
        ValueError, match=rf"it is a whole solution: 'data.source.answer_pattern={pattern}' takes"
    ) as it:
        reward.check_prompt(Prompt("id", (), {"answer": gold}))
    assert "ExactMatchReward or" not in str(it.value)
    assert "reward=math" not in str(it.value)


def test_right_answers_are_spelt_like_the_gold_so_that_they_count_as_one():
    texts = [r"\boxed{1/2}", r"\boxed{0.5}", r"\boxed{x=\dfrac12}", r"\boxed{50\%}", r"\boxed{0.5 \text{ cm}}"]
    assert {verdict(r"\frac{1}{2}", text).answer for text in texts} == {"1/2"}
    assert {verdict("x^2-1", text).answer for text in (r"\boxed{x^2-1}", r"\boxed{(x-1)(x+1)}")} == {"x^2-1"}


def test_a_division_is_no_vote_for_its_result_but_a_gold_may_be_one():
    assert verdict("42", r"\boxed{84/2}").answer == "84/2"
    assert verdict("84/2", r"\boxed{42}") == Verdict(1.0, "42")


def test_an_own_spelling_knows_nothing_of_the_gold():
    """Whatever the gold, right or wrong, the same text has the same spelling; equal numbers still have one."""
    texts = [r"\boxed{1/2}", r"\boxed{0.5}", r"\boxed{x=\dfrac12}", r"\boxed{(x-1)(x+1)}", r"\boxed{x^2-1}"]
    golds = [r"\frac{1}{2}", "x^2-1", "7", "(x+1)(x-1)"]
    told = [[verdict(gold, text, own_spelling=True).answer for text in texts] for gold in golds]
    assert all(answers == told[0] for answers in told)
    assert told[0][0] == told[0][1] == "1/2"
    assert [[verdict(gold, text, own_spelling=True).reward for text in texts] for gold in golds[:2]] == [
        [1.0, 1.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.0, 1.0],
    ]
    assert verdict("7", r"\boxed{(x-1)(x+1)}").answer != verdict("x^2-1", r"\boxed{(x-1)(x+1)}").answer  # without it


def test_wrong_answers_that_are_equal_numbers_are_spelt_alike_and_others_are_not():
    assert verdict("1", r"\boxed{0.5}").answer == verdict("1", r"\boxed{\frac{2}{4}}").answer == "1/2"
    assert verdict(r"5\text{ cm}", r"\boxed{5\text{ m}}").answer != verdict(r"5\text{ cm}", r"\boxed{5}").answer
    assert verdict("1", r"\boxed{50\%}").answer != verdict("1", r"\boxed{50}").answer


def test_no_answer_has_no_spelling_and_a_long_one_a_short_spelling():
    assert verdict("1", "none") == Verdict(0.0)
    for content in ("7" * 900, "x+" * 400 + "1", "words " * 150, "7" * 90_000):
        assert len(verdict("1", rf"\boxed{{{content}}}").answer) <= 1000


def test_the_gold_may_stand_in_a_box_or_be_a_number():
    assert verdict(r"\boxed{42}", r"\boxed{42.0}").reward == 1.0
    assert verdict(42, r"\boxed{42}").reward == 1.0
    assert verdict(0.5, r"\boxed{1/2}").reward == 1.0


@pytest.mark.parametrize(("tolerance", "reward"), [(1e-6, 0.0), (1e-2, 1.0), (0.0, 0.0)])
def test_the_tolerance_of_decimals_can_be_set(tolerance, reward):
    assert verdict("1/3", r"\boxed{0.333}", decimal_tolerance=tolerance).reward == reward
    assert verdict(r"\sqrt{2}", r"\boxed{1.414}", decimal_tolerance=tolerance).reward == reward


@pytest.mark.parametrize(("relative", "reward"), [(True, 1.0), (False, 0.0)])
@pytest.mark.parametrize(("gold", "answer"), [("1000.5", "1000.45"), (r"2.88 \times 10^{16}", "2.8801e16")])
def test_the_tolerance_can_be_a_part_of_a_large_gold(gold, answer, relative, reward):
    arguments = {"decimal_tolerance": 1e-4, "relative_tolerance": relative}
    assert verdict(gold, rf"\boxed{{{answer}}}", **arguments).reward == reward


def test_integers_and_ratios_compare_exactly_whatever_the_tolerance():
    assert verdict("1000", r"\boxed{1001}", decimal_tolerance=0.1).reward == 0.0
    assert verdict("1/3", r"\boxed{333/1000}", decimal_tolerance=0.1).reward == 0.0


def test_an_answer_beyond_the_limit_is_right_only_where_it_is_written_like_the_gold():
    long = "42." + "0" * 20
    assert verdict(long, rf"\boxed{{{long}}}", max_answer_chars=10).reward == 1.0
    assert verdict("42", rf"\boxed{{{long}}}", max_answer_chars=100).reward == 1.0
    assert verdict("42", rf"\boxed{{{long}}}", max_answer_chars=10).reward == 0.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("579", "123+456"), ("x=5", "x+2=7"), (r"3\sqrt{2}", r"\sqrt{8}+\sqrt{2}"), ("42", "84/2"), ("(1,2)", "(2-1,2)")],
)
def test_an_answer_must_be_worked_out_unless_the_setting_says_otherwise(gold, answer):
    assert verdict(gold, rf"\boxed{{{answer}}}").reward == 0.0
    assert verdict(gold, rf"\boxed{{{answer}}}", simplified=False).reward == 1.0


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.sampled_from(_OPERATIONS))
@example(0, -1, _OPERATIONS[2])
@example(-1, 1, _OPERATIONS[2])
def test_no_operation_on_numbers_is_its_own_result(left, right, operation):
    text, compute = operation
    gold = compute(Fraction(left), Fraction(right)) if right or "+" in text or "-" in text else None
    if gold is not None and (gold.denominator == 1 or "frac" not in text):
        box = rf"\boxed{{{text.format(a=left, b=right)}}}"
        assert verdict(str(gold), box).reward == 0.0
        assert NumericReward(LastBoxed())(Prompt("id", (), {"answer": str(gold)}), Completion(box)).reward == 0.0


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**12), 10**12), st.sampled_from(_FORMS))
def test_a_number_is_right_in_every_form(number, form):
    box = rf"\boxed{{{form(number)}}}"
    assert verdict(str(number), box).reward == 1.0
    assert NumericReward(LastBoxed())(Prompt("id", (), {"answer": str(number)}), Completion(box)).reward == 1.0


@pytest.mark.parametrize("answer", ["18 plus two", "42-ish plus one", r"x^{x^{x}} \text{ thirds}", "18 e^i s h o w n"])
@pytest.mark.parametrize("gold", ["18", "42", r"3\sqrt{2}", "x^2+1", "x>2"])
def test_words_are_never_computed(monkeypatch, gold, answer):
    """Letters are factors to the grammar, and a dozen of them a product."""
    monkeypatch.setattr(symbolic, "_same_by_values", lambda *arguments: pytest.fail("it was computed"))
    assert verdict(gold, rf"\boxed{{{answer}}}").reward == 0.0


def test_what_is_too_costly_to_evaluate_equals_itself_and_nothing_else():
    tower = "9^{9^{9^{9}}}"
    assert verdict(tower, rf"\boxed{{{tower}}}").reward == 1.0
    assert verdict(tower, r"\boxed{9 ^ {9^{ 9^9 }}}").reward == 1.0
    assert verdict(tower, r"\boxed{9^{9^{9^{8}}}}").reward == 0.0
    assert verdict("9", rf"\boxed{{{tower}}}").reward == 0.0


def test_an_answer_that_makes_the_computation_raise_is_wrong(monkeypatch):
    def fail(*arguments):
        raise RecursionError

    monkeypatch.setattr(symbolic, "_same_by_values", fail)
    assert verdict("x+1", r"\boxed{1+x+0}").reward == 0.0


def test_an_answer_that_computes_for_too_long_is_wrong(monkeypatch):
    def compute(*arguments):
        while True:
            sum(range(10**4))

    monkeypatch.setattr(compare, "MAX_CPU_S", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(symbolic, "_same_by_values", compute)
        assert verdict("x+1", r"\boxed{1+x+0}").reward == 0.0
    assert verdict("x+1", r"\boxed{1+x}").reward == 1.0
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@pytest.mark.parametrize(
    "answer",
    [
        r"\sin(|\log_{\arcsin(2)}(3)|)",
        r"\binom{\sqrt{x}!}{\frac{239056}{\lfloor n\rfloor}}",
        r"((x!)!)!",
        r"e^{e^{e^{x}}}",
        "+".join(rf"\sin({n}x)^{{{n}}}" for n in range(2, 20)),
    ],
)
@pytest.mark.parametrize("gold", ["5", "x+1", r"\sqrt{x}+\pi"])
def test_no_answer_takes_long(gold, answer):
    start = time.process_time()
    assert verdict(gold, rf"\boxed{{{answer}}}").reward == 0.0
    assert time.process_time() - start < 0.5


def test_the_limit_holds_for_all_parts_of_an_answer_and_whatever_catches_the_alarm():
    budget = CpuBudget(0.2)

    def compute(*, until_alarm):
        with budget.spend():
            with contextlib.suppress(CpuBudgetError):  # as a library may that catches everything, once
                while until_alarm:
                    sum(range(10**4))
            while until_alarm:
                sum(range(10**4))

    compute(until_alarm=False)
    with pytest.raises(CpuBudgetError):
        compute(until_alarm=True)
    with pytest.raises(CpuBudgetError):
        compute(until_alarm=False)


def test_in_a_thread_there_is_no_limit_of_its_own():
    """Signals reach the main thread alone, and setting them elsewhere raises."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(verdict, "x+1", r"\boxed{1+x}").result().reward == 1.0


def test_running_out_of_memory_is_a_failed_grade(monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(symbolic, "_same_by_values", fail)
    with pytest.raises(MemoryError):
        verdict("x+1", r"\boxed{1+x+0}")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({}, "has no answer; it has: nothing"),
        ({"solution": "4"}, "has no answer; it has: solution"),
        ({"answer": " "}, "answer is empty"),
        ({"answer": r"\frac{1}{"}, r"neither words nor mathematics"),
        ({"answer": r"\int_0^1 x dx"}, r"int is not known"),
        ({"answer": "3 +"}, "neither words"),
        ({"answer": "1" * 1001}, "has 1001 characters"),
        ({"answer": "(" * 30 + "1" + ")" * 30}, "30 deep"),
        ({"answer": r"(1, \oops)"}, "oops is not known"),
    ],
)
def test_a_gold_answer_that_cannot_be_graded_against_is_refused(reference, message):
    with pytest.raises(ValueError, match=message):
        MathReward().check_prompt(Prompt("id", (), reference))


@pytest.mark.parametrize("gold", [42, 0.5, "9^{9^{9^{9}}}", r"\text{no solution}", "x=3", r"\{\}", "1,234", "B"])
def test_other_gold_answers_pass(gold):
    MathReward().check_prompt(Prompt("id", (), {"answer": gold}))


def test_a_prompt_without_an_answer_cannot_be_graded():
    with pytest.raises(KeyError, match="answer"):
        MathReward()(Prompt("id", ()), Completion(r"\boxed{1}"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decimal_tolerance": -1e-9}, r"decimal_tolerance must be in \[0, 0.1\]; got -1e-09"),
        ({"decimal_tolerance": 0.2}, "got 0.2"),
        ({"decimal_tolerance": float("nan")}, "got nan"),
        ({"max_answer_chars": 0}, "max_answer_chars must be 1 to 10,000; got 0"),
        ({"max_answer_chars": 100_000}, "got 100000"),
    ],
)
def test_impossible_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MathReward(**arguments)


def test_grades_are_remembered_by_the_answer():
    reward = MathReward()
    assert reward.cache_key(Completion(r"so \boxed{4}")) == reward.cache_key(Completion(r"hence \boxed{4}"))
    assert reward.cache_key(Completion(r"so \boxed{4}")) != reward.cache_key(Completion(r"so \boxed{5}"))


def test_the_reward_travels_to_workers_without_what_it_has_read():
    reward = MathReward()
    reward(Prompt("id", (), {"answer": "x+1"}), Completion(r"\boxed{1+x}"))
    assert len(pickle.dumps(reward)) < 500


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if "known" not in pair], ids=lambda pair: pair["why"])
def test_the_reward_agrees_with_a_person(pair):
    assert is_right(pair) is pair["equal"]


def test_known_disagreements_are_still_there_and_every_gold_answer_can_be_graded_against():
    """``known`` gives the reason of a disagreement; one that is gone loses it."""
    assert [pair for pair in PAIRS if "known" in pair and is_right(pair) is pair["equal"]] == []
    for pair in PAIRS:
        MathReward().check_prompt(Prompt("id", (), {"answer": pair["gold"]}))


@pytest.mark.parametrize("case", KINDS, ids=lambda case: f"{case['kind']}: {case['gold']}"[:60])
def test_kinds_of_answers_are_told_from_their_neighbours(case):
    MathReward().check_prompt(Prompt("id", (), {"answer": case["gold"]}))
    answers = case["right"] + case["wrong"]
    start = time.process_time()
    right = [answer for answer in answers if is_right({"gold": case["gold"], "answer": answer})]
    assert time.process_time() - start < 0.5 * len(answers)
    assert right == case["right"]


def test_the_pieces_of_a_function_keep_their_conditions():
    pieces = r"\begin{cases}%s & x>0\\%s & x<0\end{cases}"
    assert verdict(pieces % ("x", "-x"), rf"\boxed{{{pieces % ('x', '-x')}}}").reward == 1.0
    assert verdict(pieces % ("x", "-x"), rf"\boxed{{{pieces % ('-x', 'x')}}}").reward == 0.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("{0}{1}", "|{0}{1}|"),
        ("|{0}+{1}|", "|{0}|+|{1}|"),
        ("{0}={1}w", "{0}=|{1}|w"),
        (r"\frac{{{0}}}{{{1}}}", r"\sqrt{{\frac{{{0}^2}}{{{1}^2}}}}"),
        ("{0}^2+3{0}+2+{1}", "|{0}^2+3{0}+2|+{1}"),
        (r"\lfloor {0}\rfloor+\lfloor {1}\rfloor", r"\lfloor {0}+{1}\rfloor"),
        (r"({0}-{1})!", r"({1}-{0})!"),
        (r"\binom{{{0}}}{{{1}}}", r"\binom{{{0}}}{{{1}+1}}"),
    ],
)
def test_what_is_equal_only_for_some_signs_is_not_equal_by_luck(gold, answer):
    """Under ten pairs of names: five points of random signs take one of 32 for equal, and of some most."""
    for names in itertools.combinations("abpqz", 2):
        given = answer.format(*names)
        assert verdict(gold.format(*names), given, extraction=WholeResponse()).reward == 0.0, given


def test_points_that_decide_follow_from_both_sides():
    """An answer that is right at the points of another pair is wrong at its own."""
    gold = read("x^2+1")
    points = [point["x"] for point in symbolic._points(gold, gold)][:5]
    assert {point["x"] for point in symbolic._points(gold, read("x^2+2"))}.isdisjoint(points)
    zero = "".join(f"(x-{point.numerator}/{point.denominator})".replace("--", "+") for point in points)
    assert verdict("x^2+1", rf"\boxed{{x^2+1+{zero}}}").reward == 0.0
    assert verdict("x^2+1", rf"\boxed{{x^2+1+{zero}-{zero}}}").reward == 1.0


def run(script):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() or done.stderr


def test_mpmath_is_loaded_only_for_answers_that_need_it_and_no_algebra_system_ever():
    """A parser of such a system evaluates text; none may be near, for any of the pairs."""
    found = run(rf"""
        import json, sys
        from pathlib import Path
        from ada_lightning.rewards.math import MathReward
        from ada_lightning.core.records import Completion, Prompt
        from ada_lightning.rewards.extraction import WholeResponse
        def loaded(gold, text):
            reward = MathReward(WholeResponse())(Prompt("id", (), {{"answer": gold}}), Completion(text)).reward
            return reward, "mpmath" in sys.modules
        print(loaded("42", "42.0"), loaded(r"(\frac{{1}}{{2}}, 3)", "(0.5,3)"))
        print(loaded(r"\sqrt{{2}}", r"\frac2{{\sqrt2}}"))
        for line in Path({str(Path(__file__).parent / "answer_pairs.jsonl")!r}).read_text().splitlines():
            pair = json.loads(line)
            loaded(pair["gold"], pair["answer"])
        print([name for name in ("sympy", "math_verify", "torch", "lightning", "vllm") if name in sys.modules])
    """)
    assert found == ["(1.0, False) (1.0, False)", "(1.0, True)", "[]"]


def test_nothing_is_imported_late_that_is_not_announced():
    """What a response imports counts against its time limit."""
    found = run(r"""
        import importlib, sys
        from ada_lightning.rewards.latex.compare import same_answer
        from ada_lightning.rewards.math import MathReward
        assert "mpmath" not in sys.modules
        for name in MathReward.modules:
            importlib.import_module(name)
        before = set(sys.modules)
        for gold, answer in [("x^2+2x+1", "(x+1)^2"), (r"\sqrt{2}+\pi", r"\pi+\sqrt{2}"), ("x^2+1=0", "1=-x^2"),
                             (r"\sin(2x)", r"2\sin(x)\cos(x)"), ("x<3", "3>x")]:
            assert same_answer(gold, answer), (gold, answer)
        print(sorted(set(sys.modules) - before))
    """)
    assert found == ["[]"]
