"""Where worked solutions are found, where they are cut, and which beginnings are refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ada_lightning.callbacks.adaptive_sampling import cut_solutions
from ada_lightning.core.following import hinted
from ada_lightning.core.hint import shows
from ada_lightning.core.records import Outcome, Prompt, SamplingSettings, Verdict
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.encoder import PromptEncoder
from ada_lightning.data.solutions import ends_of_parts, thinned, with_levels
from ada_lightning.methods.published.sage import TextHints
from ada_lightning.training.models.tiny import byte_tokenizer
from tests.unit.data.test_dataset_source import jsonl
from tests.unit.methods.test_hints import pool_of

TOKENIZER = byte_tokenizer()
LINES = "48 / 2 = 24\n48 + 24 = 72\nSo 72 clips.\n#### 72"


class Grader:
    """Takes for right what holds a text."""

    def __init__(self, right="nothing is"):
        self.right, self.seen, self._ready = right, [], []

    def submit(self, ticket, prompt, completion):
        self.seen.append((prompt.prompt_id, completion.text, completion.num_tokens))
        self._ready.append((ticket, Verdict(float(self.right in completion.text))))

    @property
    def num_pending(self):
        return len(self._ready)

    def wait(self, timeout_s):
        ready, self._ready = self._ready, []
        return ready


def prompt_with(solution, answer=None, key="a"):
    reference = {"solution": solution} | ({} if answer is None else {"answer": answer})
    prompt = Prompt(key, ({"role": "user", "content": "How many?"},), reference)
    return PromptEncoder(TOKENIZER, max_prompt_tokens=200).encode([prompt])[0]


def cut(*prompts, grader=None, num_levels=8, tokenizer=TOKENIZER):
    options = {"num_levels": num_levels, "positive_threshold": 0.7}
    return with_levels(prompts, tokenizer, grader or Grader(), **options)


def begun(prompt):
    return [prompt.solution.text[:place] for place, _ in prompt.solution.levels]


@pytest.mark.parametrize(
    ("row", "options", "solution"),
    [
        # GSM8K: the answer stands at the end of the solution, and each sum is noted twice
        (
            {"question": "q", "answer": "48/2 = <<48/2=24>>24 clips.\nIn all <<48+24=72>>72.\n#### 72"},
            {"answer_pattern": "#### (.*)"},
            "48/2 = 24 clips.\nIn all 72.\n#### 72",
        ),
        ({"problem": "q", "solution": "Add.\nIt is $\\boxed{72}$."}, {}, "Add.\nIt is $\\boxed{72}$."),  # MATH
        ({"problem": "q", "solution": "Add.\n72", "answer": "72"}, {}, "Add.\n72"),  # NuminaMath-1.5, OpenR1-Math
        ({"prompt": "q", "answer": "72", "rationale": "Add."}, {"solution_column": "rationale"}, "Add."),
        ({"prompt": "q", "answer": "72", "extra": {"steps": " a\nb "}}, {"solution_column": "extra.steps"}, "a\nb"),
        ({"prompt": "q", "answer": "72"}, {}, None),
        ({"prompt": "q", "answer": "72", "solution": None}, {}, None),
    ],
)
def test_solutions_are_found_in_the_layouts_of_data_sets(tmp_path, row, options, solution):
    made = DatasetSource(jsonl(tmp_path / "a.jsonl", [row]), num_heldout=0, seed=0, **options)
    (prompt,) = made.train_prompts()
    assert prompt.reference.get("solution") == solution
    assert all("Add" not in turn["content"] for turn in prompt.messages)


def test_the_id_of_a_prompt_does_not_depend_on_its_solution(tmp_path):
    rows = [{"prompt": "q", "answer": "72", "how": how} for how in ("one", "another", None)]
    ids = {
        DatasetSource(jsonl(tmp_path / "a.jsonl", [row]), num_heldout=0, seed=0, solution_column=name)
        .train_prompts()[0]
        .prompt_id
        for row, name in zip([*rows, rows[0]], ["how", "how", "how", None], strict=True)
    }
    assert len(ids) == 1


def test_a_column_that_is_not_there_is_named(tmp_path):
    made = DatasetSource(
        jsonl(tmp_path / "a.jsonl", [{"prompt": "q", "answer": "1"}]), num_heldout=0, seed=0, solution_column="steps"
    )
    with pytest.raises(ValueError, match=r"no column 'steps'; columns found: answer, prompt; set .*solution_column"):
        made.train_prompts()


def test_few_columns_are_read_with_the_solution(tmp_path):
    rows = [{"prompt": "q", "answer": "1", "steps": "a\nb", "more": "x"}]
    made = DatasetSource(
        jsonl(tmp_path / "a.jsonl", rows), num_heldout=0, seed=0, solution_column="steps", keep_columns=[]
    )
    assert made.train_prompts()[0].reference == {"answer": "1", "solution": "a\nb", "columns": {}}


def test_levels_end_behind_lines_that_do_not_show_the_answer():
    (prompt,), line = cut(prompt_with(LINES, "72"))
    assert begun(prompt) == ["48 / 2 = 24\n"]
    assert line == (
        "hints: 1 of 1 training prompts have a solution that may be given in part, in 1.0 levels; refused levels: 2, "
        "2 show the answer"
    )
    (prompt,), _ = cut(prompt_with(LINES))  # nobody knows the answer
    assert begun(prompt) == [
        "48 / 2 = 24\n",
        "48 / 2 = 24\n48 + 24 = 72\n",
        "48 / 2 = 24\n48 + 24 = 72\nSo 72 clips.\n",
    ]


def test_the_tokens_of_a_hint_are_those_of_its_text_behind_the_prompt():
    (prompt,), _ = cut(prompt_with(LINES, "72"))
    given = hinted(prompt, 1)
    assert TOKENIZER.decode(given.prompt_ids) == TOKENIZER.decode(prompt.prompt_ids) + "48 / 2 = 24\n"
    assert given.hint.num_tokens == len(given.prompt_ids) - len(prompt.prompt_ids)


def test_levels_that_are_graded_right_are_refused():
    grader = Grader("= 24")
    (prompt,), line = cut(prompt_with("2 * 12\n2 * 12 = 24\n24 + 1 = 25\n25"), grader=grader)
    assert begun(prompt) == ["2 * 12\n"]
    assert line.endswith("refused levels: 2, 2 are graded right by themselves")
    assert grader.seen[0] == ("a", "2 * 12\n", 7)


def test_a_grade_that_failed_is_not_a_right_one():
    class Failing(Grader):
        def submit(self, ticket, prompt, completion):
            self._ready.append((ticket, Verdict(None, failure="OSError")))

    (prompt,), _ = cut(prompt_with("a\nb\nc"), grader=Failing())
    assert begun(prompt) == ["a\n", "a\nb\n"]


def test_levels_whose_tokens_are_not_those_of_the_whole_or_end_a_turn_are_refused():
    class Joining:
        """Makes one token of "\\nb", as if the cut went through it."""

        all_special_ids = (0,)

        def __call__(self, texts, add_special_tokens):
            return {
                "input_ids": [[999 if c == "\n" and t[i:] == "\nb" else ord(c) for i, c in enumerate(t)] for t in texts]
            }

        def decode(self, ids):
            return "".join("\n" if i == 999 else chr(i) for i in ids)

    (prompt,), line = cut(prompt_with("a\nb"), tokenizer=Joining())
    assert prompt.solution.levels == ()
    assert line.endswith("refused levels: 1, 1 do not come back as text")
    (prompt,), line = cut(prompt_with("a<|im_end|>\nb\nc"))
    assert prompt.solution.levels == ()
    assert line.endswith("refused levels: 2, 2 do not come back as text")


def test_long_solutions_have_few_levels_and_single_sentences_eighths():
    (prompt,), _ = cut(prompt_with("\n".join("abcdefghijklmnopqrst")), num_levels=4)
    assert [len(text) // 2 for text in begun(prompt)] == [5, 10, 14, 19]
    (prompt,), _ = cut(prompt_with("x" * 16))
    assert [len(text) for text in begun(prompt)] == [2, 4, 6, 8, 10, 12, 14]
    (prompt,), _ = cut(prompt_with("First add. Then halve. Done."))
    assert begun(prompt) == ["First add.", "First add. Then halve."]


def test_prompts_without_a_solution_stay_and_repeated_ones_are_cut_once():
    grader, bare = Grader(), Prompt("bare", ({"role": "user", "content": "?"},))
    known = prompt_with("a\nb")
    found, line = cut(known, bare, known, grader=grader)
    assert found[1] is bare
    assert found[0] is found[2]
    assert len(grader.seen) == 1
    assert line.startswith("hints: 1 of 2 training prompts have a solution")


def test_places_and_words():
    assert ends_of_parts("a\n\n  b\n \nc") == [3, 9]
    assert thinned([1, 2], 1) == [2]
    assert shows("x = -4.", "-4")
    assert not shows("1,072", "72")
    for text in ("1,234 eggs", r"1{,}234", "1\u202f234.", "$1234.00", "so -1234"):
        assert shows(text, "1234")
        assert shows(text, np.int64(1234))
        assert shows(text, 1234.0)
    assert shows("x = \u2212.50", "-0.5")
    for text in ("12,345", "1234.5", "0.1234", "51,234", "a1234"):
        assert not shows(text, "1,234")
    assert not shows("x = 5", "-5")
    assert not shows("anything", None)
    assert not shows("True", True)


@pytest.mark.parametrize(
    ("text", "answer", "wanted"),
    [
        ("4502 = 2 * 2251\n", "2 \u00d7 2251", True),
        (r"= 2 \cdot 3^2", "2*3^2", True),
        (r"$\dfrac{7}{39}$", "7/39", True),
        ("so 7 / 39.", r"\frac{7}{39}", True),
        ("= \u22127/39", "-7/39", True),
        ("- 7/39", "7/39", True),
        (r"x \in \left(3,4\right]", "(3, 4]", True),
        (r"\{1, 2\}", "{1,2}", True),
        (r"50\%", "50%", True),
        ("it is $x+1$.", "x + 1", True),
        ("84 / 12 = 7, 468 / 12 = 39", "7/39", False),
        ("24 = 2*2*2*3", "2*3", False),
        ("17/39 or 7/390", "7/39", False),
        ("1/2*3", "1/2", False),
        ("2x+10", "x+1", False),
    ],
)
def test_an_answer_is_shown_whatever_signs_it_is_written_in(text, answer, wanted):
    assert shows(text, answer) is wanted


def test_hints_that_the_policy_writes_are_encoded_as_the_prompts_are(tmp_path):
    rows = [{"prompt": "q", "answer": "72", "solution": "Add."}, {"prompt": "r", "answer": "7", "solution": None}]
    source = DatasetSource(jsonl(tmp_path / "a.jsonl", rows), num_heldout=0, seed=0)
    data = RolloutDataModule(source=source, max_prompt_tokens=200, prompts_per_step=2, num_steps=1, seed=0)
    hints, tokenizer = TextHints(p_min=0.9, doubt=1.0), byte_tokenizer()
    with pytest.raises(RuntimeError, match=r"call encode_prompts\(tokenizer\) first"):
        data.connect_hints(hints)
    data.encode_prompts(tokenizer)
    method, sampling = SimpleNamespace(hints=hints), SamplingSettings(max_new_tokens=24)
    with pytest.raises(ValueError, match="leaves 76 tokens for prompt and solution"):
        cut_solutions(method, data, tokenizer, Grader(), SimpleNamespace(max_model_tokens=100, sampling=sampling))
    data.report.notes.clear()
    cut_solutions(method, data, tokenizer, Grader(), SimpleNamespace(max_model_tokens=1024, sampling=sampling))
    assert data.report.notes == ["hints: 1 of 2 training prompts have a solution to write a hint from"]
    prompt = next(prompt for prompt in data.train_prompts if "solution" in prompt.reference)
    asks = hints.follow(pool_of(prompt, [0.0, 0.0]))
    tokenizer.chat_template = "other"  # the hints' own copy stays as it was
    given = hints.written(prompt, asks.hint, Outcome("Sum.", (1,), (0.0,), False), is_right=False, room=None)
    shown = TOKENIZER.decode(prompt.prompt_ids)
    assert TOKENIZER.decode(given.prompt_ids) == shown.replace("q", "q\n\nHint: Sum.", 1)
    assert "Add." in TOKENIZER.decode(asks.prompt_ids)
