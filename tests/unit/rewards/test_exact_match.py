import pytest

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import LastBoxed, LastNumber, WholeResponse


def grade(answer, text, extraction=None):
    return ExactMatchReward(extraction or WholeResponse())(
        Prompt("id", (), {"answer": answer}), Completion(text)
    ).reward


@pytest.mark.parametrize(
    ("answer", "text", "reward"),
    [
        ("12", "12", 1.0),
        ("12", "12.0", 1.0),
        ("12", "12.", 1.0),
        ("12.", "12", 1.0),
        (12, "12", 1.0),
        (0.1, "0.10", 1.0),
        ("1,000", "1000", 1.0),
        ("3/4", "0.75", 1.0),
        ("3/4", "6 / 8", 1.0),
        ("24/2", "12", 1.0),
        ("24/2", "24/2", 1.0),
        ("3e4", "30000", 1.0),
        (".5", "0.5", 1.0),
        ("-4", "\u22124", 1.0),
        ("+4", "4", 1.0),
        ("$12$", "12", 1.0),
        ("12", r"\(12\)", 1.0),
        ("12", "$12.$", 1.0),
        ("1000", "1'000", 1.0),
        ("1_000.5", "1000.5", 1.0),
        ("1 000", "1000", 1.0),
        ("1\u00bd", "1.5", 1.0),
        ("1", "1\u00bd", 0.0),
        ("1000.5", "1,000\u00bd", 1.0),
        ("1", "one\u00bd", 0.0),
        ("Paris", " paris. ", 1.0),
        ("New York", "new \n york", 1.0),
        ("1" * 600, "1" * 600, 1.0),
        ("12", "13", 0.0),
        ("12", "120", 0.0),
        ("4", "2+2", 0.0),
        ("12", "24/2", 0.0),
        ("12", "12/1", 0.0),
        ("4", "2**2", 0.0),
        ("0.1", "0.1000000000000000055511151231257827", 0.0),
        ("1/0", "2/0", 0.0),
        ("1", "1e99999999999", 0.0),
        ("12", "__import__('os')", 0.0),
        ("nan", "inf", 0.0),
        ("Paris", "London", 0.0),
        ("12", "", 0.0),
    ],
)
def test_equal_answers_are_right_and_others_wrong(answer, text, reward):
    assert grade(answer, text) == reward


def test_the_answer_is_looked_for_by_the_extraction():
    assert grade("12", "5 + 7 is 12, of course", LastNumber()) == 1.0
    assert grade("12", "no idea", LastNumber()) == 0.0
    assert grade("1", "It is 1\u00bd.", LastNumber()) == 0.0
    assert grade("1.5", "It is 1\u00bd.", LastNumber()) == grade("1\u00bd", "It is 1.5.", LastNumber()) == 1.0


def test_a_prompt_without_an_answer_cannot_be_graded():
    with pytest.raises(KeyError, match="answer"):
        ExactMatchReward(WholeResponse())(Prompt("id", ()), Completion("12"))


@pytest.mark.parametrize(
    ("answer", "extraction", "found"),
    [
        ("Natalia sold 48/2 = 24 clips in May. #### 72 apples", LastNumber(), "finds '72' in it"),
        ("Paris", LastNumber(), "finds None in it"),
        ("50%", LastNumber(), "finds '50' in it"),
        ("1/2", LastNumber(), "finds '2' in it"),
        ("}", LastBoxed(), "finds None in it"),
    ],
)
def test_a_gold_answer_that_is_not_found_where_it_is_stated_is_refused(answer, extraction, found):
    """Otherwise every response is worth 0 and nobody is told why."""
    with pytest.raises(ValueError, match=f"would be worth 0, because {type(extraction).__name__} {found}"):
        ExactMatchReward(extraction).check_prompt(Prompt("id", (), {"answer": answer}))


@pytest.mark.parametrize(
    ("answer", "extraction"),
    [("1,000.0", LastNumber()), (12, LastNumber()), ("Paris", LastBoxed()), ("1/2", LastBoxed())],
)
def test_other_gold_answers_pass(answer, extraction):
    ExactMatchReward(extraction).check_prompt(Prompt("id", (), {"answer": answer}))


@pytest.mark.parametrize(
    ("text", "told"),
    [("12.0", "12"), ("24 / 2", "24 / 2"), ("$0.75$", "3/4"), ("New \n York.", "new york"), ("2+2", "2+2"), ("", None)],
)
def test_equal_answers_are_told_as_equal_texts(text, told):
    reward = ExactMatchReward(WholeResponse())
    assert reward(Prompt("id", (), {"answer": "12"}), Completion(text)) == Verdict(float(told == "12"), told)
