from fractions import Fraction

import pytest
from hydra.utils import instantiate

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.methods.catalog import entries
from ada_lightning.rewards.extraction import LastBoxed, WholeResponse
from ada_lightning.rewards.numeric import NumericReward, parse_quantity


def grade(gold, text, **tolerances):
    return NumericReward(WholeResponse(), **tolerances)(Prompt("id", (), {"answer": gold}), Completion(text)).reward


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("-1,234.50", Fraction(-2469, 2)),
        ("3/4", Fraction(3, 4)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-2\frac{1}{2}", Fraction(-5, 2)),
        ("2 1/2", Fraction(5, 2)),
        (r"3 \times 10^{-2}", Fraction(3, 100)),
        ("6e3", 6000),
        ("12.5%", Fraction(1, 8)),
        (r"$5\text{ kg}$", 5),
        ("\\$7.50", Fraction(15, 2)),
        ("x = 2^5 = 32", 32),
        ("32 = x", 32),
        ("x = 2^5", None),
        ("4!", None),
        ("123+456", None),
        ("84/2", None),
        ("5 squared", None),
        (r"5\text{k}", None),
        ("101_2", None),
        ("10:30", None),
        (r"x \not= 5", None),
        ("\u00bd", Fraction(1, 2)),
        ("0.1(6)", Fraction(1, 6)),
        ("5 apples", 5),
        (r"5 \text{ centimetres}", 5),
        (r"\sqrt{2}", None),
        ("x", None),
        ("about 5", 5),
        ("about 5 or 6", None),
        ("1/0", None),
        ("9^{9^9}", None),
        ("9" * 501, None),
        ("(" * 30 + "1" + ")" * 30, None),
        ("__import__('os')", None),
        ("\u0664\u0662", None),
        ("", None),
    ],
)
def test_numbers_are_read_exactly_or_not_at_all(text, number):
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    ("text", "reward"), [("101", 1.0), ("99", 1.0), ("101.0000001", 0.0), ("98.9999999", 0.0), ("-100", 0.0)]
)
def test_the_relative_tolerance_is_a_part_of_the_gold_s_size_with_exact_ends(text, reward):
    assert grade("100", text, relative_tolerance=0.01) == reward


@pytest.mark.parametrize(("text", "reward"), [("0.1", 1.0), ("-0.1", 1.0), ("0.10000001", 0.0)])
def test_the_absolute_tolerance_helps_where_the_gold_is_zero(text, reward):
    assert grade("0", text, absolute_tolerance=0.1) == reward
    assert grade("0", text, relative_tolerance=0.5) == 0.0


def test_a_gold_may_be_an_operation_and_have_any_unit_where_an_answer_may_not():
    assert grade("2^5", "32") == grade("32 gizmos", "32") == 1.0
    assert grade("32", "2^5") == grade("32", "32 gizmos") == 0.0


def test_numbers_that_an_answer_says_are_equal_must_all_be_close():
    assert grade("42", "40 + 2 = 42") == grade("1/3", r"\frac{1}{3} = 0.333", relative_tolerance=0.01) == 1.0
    assert grade("42", "41 = 42") == grade("41", "41 = 42") == 0.0


def test_the_larger_tolerance_counts():
    assert grade("100", "105", relative_tolerance=0.01, absolute_tolerance=5) == 1.0
    assert grade("1000", "1010", relative_tolerance=0.01, absolute_tolerance=5) == 1.0


def test_without_tolerance_numbers_are_equal_or_not():
    assert grade("0.1", "1/10") == 1.0
    assert grade("0.1", "0.1000000000000000055511151231257827") == 0.0


def test_per_cent_are_hundredths():
    assert grade("50%", "0.5") == grade("0.5", "50%") == 1.0
    assert grade("50%", "50") == 0.0


@pytest.mark.parametrize(
    ("gold", "text", "reward"),
    [
        ("12%", "The margin is 12%.", 1.0),
        ("0.12", "It grew by 12%.", 1.0),
        ("50", "It is 50%.", 0.0),
        ("2", "The answer is 1/2.", 0.0),
        ("0.5", "The answer is 1/2.", 1.0),
        ("1234", r"The answer is 1{,}234.", 1.0),
        ("1000", "The answer is 1 000.", 1.0),
        ("1000", r"\boxed{1\_000}", 1.0),
        ("0", "The answer is 1'000.", 0.0),
        ("-1/6", r"The answer is -0.1\overline{6}.", 1.0),
        ("42", "The answer is 84/2.", 0.0),
        ("42", "84/2 = 42", 1.0),
        ("7", r"\boxed{7}, not 8", 1.0),
        ("12.5", "12.5 million", 0.0),
        ("12500000", "12.5 million", 1.0),
        ("3000", "It costs 3 thousand.", 1.0),
        ("2.5", "about 2.5 billion people", 0.0),
        ("3", "That is 3 dozen.", 0.0),
        ("12", "a salary of 12k", 0.0),
        ("12.5", "worth $12.5M", 0.0),
        ("12", "a walk of 12km", 1.0),
        ("9.8", r"\boxed{9.8 m/s^2}", 1.0),
        ("300", r"\boxed{300 K}", 1.0),
        ("6.02e23", r"\boxed{6.02 x 10^{23}}", 1.0),
        ("3.14159", r"\boxed{\pi}", 1.0),
        ("3.14159", r"\boxed{\frac{\pi}{2}+\frac{\pi}{2}}", 0.0),
        ("2", r"\boxed{\sqrt{4}}", 0.0),
        ("5", r"\boxed{\approx 5}", 1.0),
        ("6", r"\boxed{2x=6}", 0.0),
        ("6", r"\boxed{x=6}", 1.0),
        ("0", r"\boxed{x^2-9=0}", 0.0),
    ],
)
def test_the_extraction_of_its_configuration_keeps_what_belongs_to_the_value(gold, text, reward):
    node = entries()["reward/numeric"].node["reward"]
    assert instantiate(node)(Prompt("id", (), {"answer": gold}), Completion(text)).reward == reward


def test_the_verdict_tells_the_number():
    reward = NumericReward(LastBoxed())
    prompt = Prompt("id", (), {"answer": 1})
    assert reward(prompt, Completion(r"\boxed{2/4}")) == Verdict(0.0, "1/2")
    assert reward(prompt, Completion("none")) == Verdict(0.0)
    assert reward(prompt, Completion(r"\boxed{10^{3000}}")).answer == str(10**3000)


def test_gold_answers_that_are_no_numbers_are_refused():
    reward = NumericReward(WholeResponse())
    reward.check_prompt(Prompt("id", (), {"answer": "1,000 km"}))
    for reference, message in (({}, "has no answer"), ({"answer": "many"}, "'many' is no number")):
        with pytest.raises(ValueError, match=message):
            reward.check_prompt(Prompt("id", (), reference))


@pytest.mark.parametrize(("name", "value"), [("relative_tolerance", -0.1), ("absolute_tolerance", float("inf"))])
def test_impossible_tolerances_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be 0 or a positive number; got {value}"):
        NumericReward(WholeResponse(), **{name: value})
