"""Where an answer is found: one table of texts and answers a kind of extraction."""

import pickle

import pytest

from ada_lightning.rewards.extraction import (
    AfterThinking,
    AnswerLine,
    FirstLine,
    FirstOf,
    LastBoxed,
    LastNumber,
    LastQuantity,
    TaggedAnswer,
    WholeResponse,
    stating,
)

CHAIN = FirstOf([LastBoxed(), TaggedAnswer(), LastNumber()])
CASES = [
    (
        LastNumber(),
        [
            ("12", "12"),
            ("The answer is 12.", "12"),
            ("The answer is 12.0", "12.0"),
            ("The answer is 12.0.", "12.0"),
            ("4 - 1 = 3", "3"),
            ("5 - 9 = -4", "-4"),
            ("5 \u2212 9 = \u22124", "-4"),  # mathematical minus
            ("it is \u20137", "-7"),  # en dash
            ("-4", "-4"),
            ("**-4**", "-4"),
            ("(-4)", "-4"),
            ("=-4", "-4"),
            ("5-3", "3"),
            (r"-\$20", "-20"),
            ("a loss of -$1,200.50.", "-1200.50"),
            ("5-$3", "3"),
            ("(5)-3", "3"),
            ("x-3", "3"),
            ("- 3", "3"),
            ("+7", "7"),
            ("1,234", "1234"),
            ("1,234,567.89", "1234567.89"),
            ("-1,234", "-1234"),
            ("1,23", "23"),
            ("1234,567", "567"),
            ("1,2345", "2345"),
            ("1, 2, 3", "3"),
            ("12, which is even", "12"),
            ("007", "007"),
            (".5", ".5"),
            ("-.5", "-.5"),
            ("1.2.3", "3"),
            ("3e5", "3e5"),
            ("2.5E-3 m", "2.5E-3"),
            ("12km", "12"),
            ("$12", "12"),
            ("12%", "12"),
            ("x12", "12"),
            ("3/4", "4"),
            ("12\nBecause 5 + 7 is that", "7"),
            ("1e9999999", "9999999"),
            ("It costs 1'000.", "1000"),
            ("it is 1\u2019234\u2019567.5", "1234567.5"),
            ("so 1_000_000", "1000000"),
            (r"so $12{,}345$", "12345"),
            ("1\u202f234", "1234"),
            ("it is 25 000 m", "25000"),
            ("-1 000 500", "-1000500"),
            ("sorted: 100 200 300", "300"),  # a list as well as a number
            ("5 100 000", "5100000"),
            ("12_3", "3"),
            ("1\u00bd", "3/2"),
            ("-2 \u00be cups", "-11/4"),
            ("\u2153 of it", "1/3"),
            ("1" * 5000 + "\u00bd", "1" * 5000 + "\u00bd"),
            ("1" + " 000" * 30_000 + " 1", "1"),  # one pass
            ("", None),
            ("no digits - none.", None),
            ("\u0664\u0662", None),  # digits of other scripts
            ("1," * 50_000 + "5", "5"),
            ("1" * 100_000 + "x", "1" * 100_000),
        ],
    ),
    (
        LastQuantity(),
        [
            ("The answer is 12.", "12"),
            ("The margin is 12%.", "12%"),
            (r"so 12.5\%", r"12.5\%"),
            ("grew by 12 percent", "12 percent"),
            ("The answer is 1/2.", "1/2"),
            ("The answer is -1 / 2.", "-1 / 2"),
            (r"it is \frac{3}{4}", r"\frac{3}{4}"),
            (r"it is -\dfrac{3}{4}.", r"-\dfrac{3}{4}"),
            ("3/4 of 12 is 9", "9"),
            (r"1{,}234", "1234"),
            (r"1\,234", "1234"),
            (r"1,\!234", "1234"),
            ("1\u202f234", "1234"),
            ("1 000 people", "1000"),
            ("1'000.5", "1000.5"),
            ("1_000", "1000"),
            (r"1\_000", "1000"),
            ("100 200", "200"),
            (r"\frac34", r"\frac{3}{4}"),
            ("2 1/2 hours", "2 1/2"),
            (r"$-2\frac{1}{2}$", r"-2\frac{1}{2}"),
            (r"3 \times 10^4 m", r"3 \times 10^4"),
            ("3 x 10^{-3}", r"3 \times 10^{-3}"),
            ("5 m^2", "5"),
            (r"5 \text{ cm}^{3}", "5"),
            ("2^{10}", "2^{10}"),
            ("6.02\u00d710\u00b2\u00b3", r"6.02 \times 10^{23}"),
            ("10\u207b\u2075", "10^{-5}"),
            ("5 m\u00b2", "5"),
            ("2\u00be cups", r"2\frac{3}{4}"),
            ("\u2152 of it", r"\frac{1}{10}"),
            ("1\u20442", "1/2"),
            ("\uff11\uff12", "12"),
            ("a loss of -$20", "-20"),
            ("5 - 1,009 = \u22121,004.", "-1004"),
            ("12km", "12"),
            ("no digits", None),
        ],
    ),
    (WholeResponse(), [(" 12 \n", "12"), ("a\nb", "a\nb"), ("", None), (" \n\t", None)]),
    (
        FirstLine(),
        [("12\nbecause", "12"), ("\n \n 12 \n", "12"), ("12", "12"), ("", None), ("\n\n", None), ("a\r\nb", "a")],
    ),
    (
        TaggedAnswer(),
        [
            (r"<answer>\boxed{5}</answer>", "5"),
            (r"<answer>so \boxed{5}, not 6</answer>", "5"),
            ("<answer>12</answer>", "12"),
            ("<answer>\n 12 \n</answer>.", "12"),
            ("<answer>1</answer><answer>2</answer>", "2"),
            ("<answer>1</answer> then <answer>2", "1"),  # cut by the length limit
            ("<answer>1 <answer>2</answer>", "2"),
            ("</answer> <answer>", None),
            ("<answer>12", None),
            ("12</answer>", None),
            ("<answer> </answer>", None),
            ("<ANSWER>12</ANSWER>", None),
            (r"<answer>It is $\boxed{12}$</answer>", "12"),
            ("", None),
        ],
    ),
    (TaggedAnswer(tag="final"), [("<answer>1</answer><final>2</final>", "2")]),
    (
        LastBoxed(),
        [
            (r"\boxed{12}", "12"),
            (r"\boxed{ 12 }.", "12"),
            (r"\boxed {12}", "12"),
            (r"\boxed{\frac{3}{4}}", r"\frac{3}{4}"),
            (r"\boxed{1} so \boxed{2}", "2"),
            (r"\boxed{1} so \boxed{2", "1"),  # cut by the length limit
            (r"\boxed{\boxed{3}}", "3"),
            (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
            (r"} \boxed{5} }", "5"),
            (r"{ \boxed{6}", "6"),
            (r"\boxed{}", None),
            (r"\boxed{\frac{3}{4}", None),
            (r"\boxed{4}, inside of \boxed{} as required", "4"),
            (r"\boxed{\boxed{}}", None),
            (r"$\boxed 12$", "12"),
            (r"\boxed x", "x"),
            (r"\boxed{3} is in the \boxed I was asked for", "3"),
            (r"\boxed -1,200.5.", "-1,200.5"),
            (r"\(\boxed 12\), so 3", "12"),
            (r"\boxed 12, so 3", "12"),
            *((rf"\boxed {said}", None) for said in ("3/4", "3 / 4", "12^2", r"2\pi", "2x")),
            (r"\boxed\frac12", None),
            ("boxed{12}", None),
            (r"\unboxed{12} \boxedx{1}", None),
            (r"\fbox{12}", "12"),
            (r"\framebox{12}", "12"),
            (r"\\boxed{\\frac{2}{3}}", r"\frac{2}{3}"),  # escaped once too often
            (r"2 \\\boxed{4}", "4"),  # a new line, then a box
            (r"\boxed{\begin{pmatrix}1\\2\end{pmatrix}}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
            (r"\boxed{12} \fbox{13}", "12"),
            (r"\boxed 12x", None),
            ("", None),
            (r"\boxed{" * 50_000, None),  # one pass
        ],
    ),
    (
        LastBoxed(several="list"),
        [
            (r"So $x=\boxed{3}$ or $x=\boxed{4}$.", "3, 4"),
            (r"$\boxed{x=1}$, $\boxed{y=2}$", "x=1, y=2"),
            ("\\boxed{3}\nor\n\\boxed{4}", "3, 4"),
            ("\\boxed{18}? No.\n \nIt is \\boxed{20}.\n\nDone, as \\boxed{} says", "20"),
            (r"\boxed{14}, so the answer is \boxed{14}", "14"),
            (r"\boxed{12}, or \boxed{12.0}", "12"),
            (r"\boxed{\frac{1}{2}} = \boxed{0.5} \ne \boxed{2}", r"\frac{1}{2}, 2"),
            (r"\boxed{\boxed{3}} \boxed{4", "3"),
            ("none", None),
        ],
    ),
    (
        AnswerLine(),
        [
            ("Answer: 42", "42"),
            ("Answer: 41\nNo.\nAnswer: 42\nThat is all.", "42"),
            ("so\nANSWER : $\\frac{3}{4}$", "$\\frac{3}{4}$"),
            ("**Answer:** 42", "42"),
            ("**Answer**: 42", "42"),
            ("**Final Answer: 42**", "42"),
            ("Answer\uff1a 42", "42"),
            ("Answer:\n\n42 \r\nyes", "42"),
            (r"Answer: \boxed{42}.", "42"),
            ("Answer: 1, 2", "1, 2"),
            ("Answer: 1\nAnswer:", None),  # cut by the length limit
            ("Answers: 42", None),
            ("the answer is 42", None),
            ("", None),
            ("Answer:" + "*" * 100_000, None),  # one pass
        ],
    ),
    (
        AfterThinking(LastBoxed()),
        [
            (r"<think>\boxed{3}</think> \boxed{4}", "4"),
            (r"<think>\boxed{3}</think> four", None),
            (r"\boxed{3}</think> \boxed{4}", "4"),  # the chat template has opened it
            (r"\boxed{3}</think>", None),
            (r"<think> \boxed{3}", None),  # cut by the length limit
            (r"<think>a</think> \boxed{4} <think> \boxed{5}", "4"),
            (r"<think>a</think> \boxed{4} <think> \boxed{5}</think>", None),
            (r"\boxed{4}", "4"),
        ],
    ),
    (AfterThinking(LastBoxed(), is_opened=True), [(r"\boxed{3}", None), (r"\boxed{3}</think> \boxed{4}", "4")]),
    (
        CHAIN,
        [
            (r"<answer>2</answer> \boxed{1} 3", "1"),
            ("<answer>2</answer> 3", "2"),
            ("so 3", "3"),
            ("none", None),
        ],
    ),
]


@pytest.mark.parametrize(
    ("find", "text", "answer"),
    [
        pytest.param(find, *case, id=f"{type(find).__name__}-{case[0][:40]!r}")
        for find, cases in CASES
        for case in cases
    ],
)
def test_the_answer_is_found_also_in_another_process(find, text, answer):
    assert find(text) == answer
    assert pickle.loads(pickle.dumps(find))(text) == answer


@pytest.mark.parametrize("find", [find for find, _ in CASES])
def test_an_answer_that_is_stated_is_found(find):
    assert find(stating(find, "72")) == "72"


def test_several_boxes_are_the_last_or_a_list():
    with pytest.raises(ValueError, match=r"several must be last or list; got 'all'"):
        LastBoxed(several="all")


@pytest.mark.parametrize("tag", ["<answer>", "", "a b", "a|b"])
def test_a_tag_with_other_characters_than_a_name_is_refused(tag):
    with pytest.raises(ValueError, match="without angle brackets"):
        TaggedAnswer(tag=tag)


def test_a_chain_of_no_extractions_is_refused():
    with pytest.raises(ValueError, match="at least one way to find an answer; got none"):
        FirstOf([])
