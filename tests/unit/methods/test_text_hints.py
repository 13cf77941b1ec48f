"""What groups under written hints follow, enumerated on a policy of 2 tokens; which hints are refused; a real model."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ada_lightning.analysis.statement import describe_update
from ada_lightning.core.hint import Hint
from ada_lightning.core.records import Belief, Outcome, Prompt, ResponsePool, SamplingSettings, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.data.encoder import PromptEncoder
from ada_lightning.methods.advantages import ExactAdvantage
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.published.sage import LEVELS, REASONS, TextHints
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.engines.transformers_engine import TransformersEngine
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.phase_clock import PhaseClock
from ada_lightning.training.losses import ReinforceLoss, TokenMeanReduction
from ada_lightning.training.models.tiny import byte_tokenizer
from tests.builders import make_response
from tests.integration.test_vllm_engine import load, named

QUESTION = ({"role": "system", "content": "Be short."}, {"role": "user", "content": "6 * 7 + 1?"})
PROMPT = Prompt("p7", QUESTION, {"solution": "6 * 7 = 42\n42 + 1 = 43", "answer": "43"}, prompt_ids=(7,) * 20)
HINTS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""What the policy may write. The last one is refused."""
WRONG, RIGHT = Verdict(0.0), Verdict(1.0)


def text_hints(**options):
    hints = TextHints(**{"p_min": 0.9, "doubt": 1.0, "max_share": 0.7, **options})
    hints.connect(lambda prompt: map(ord, prompt.messages[-1]["content"]), has_turns=True)
    return hints


class Toy:
    """Logits of a 1 for two tokens of a hint, and for an answer, of which the features of the hint are a part."""

    def __init__(self):
        generator = np.random.default_rng(3)
        self.writing, self.answering = generator.normal(0, 1, 3), generator.normal(0, 1, 3)

    def features(self, hint):
        return np.array([1.0, hint[0], hint[1]])

    def rate_of(self, token, logit):
        rate = 1 / (1 + np.exp(-logit))
        return rate if token else 1 - rate

    def chance(self, hint):
        """Probability with which it is written."""
        return self.rate_of(hint[0], self.writing[0]) * self.rate_of(hint[1], self.writing[1 + hint[0]])

    def pass_rate(self, hint):
        return self.rate_of(1, self.answering @ self.features(hint))

    def score(self, hint, answer):
        """Gradient of the log-probability of an answer behind a hint, in the parameters of answers."""
        return (answer - self.pass_rate(hint)) * self.features(hint)


def step_of(n, **options):
    settings = StepSettings(seed=7)
    follow_up = text_hints(**options)
    return Step([PROMPT], sampler=UniformSampler(group_size=n), selection=AllSelection(), settings=settings,
                follow_up=follow_up)  # fmt: skip


def outcome(text, grade, num_tokens=2):
    return Outcome(text, tuple(range(num_tokens)), (-0.5,) * num_tokens, False, grade)


def played(n, said, grade, answers):
    """The groups of a step: the bare one all wrong, then what is written, then these answers behind it."""
    step, asked = step_of(n), []
    while requests := step.ask():
        for request in requests:
            asked.append(request)
            if request.sample_index < 0:
                step.tell(request, outcome(said, grade))
            else:
                is_right = request.prompt.hint is not None and answers[request.sample_index]
                step.tell(request, outcome("", RIGHT if is_right else WRONG))
    return step, step.finish(), asked


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("objective", [LinearObjective(), LogObjective()])
def test_hinted_groups_follow_the_mean_over_written_hints_of_the_gradient_under_each(objective, n):
    """With f'(p): 1 for the linear one, and what n responses support of 1/p, (1 - (1-p)^(n-1)) / p, for the log."""
    toy, advantage = Toy(), ExactAdvantage(objective=objective)
    update, expected = np.zeros(3), np.zeros(3)
    for hint in HINTS:
        is_refused, p = hint == (1, 1), toy.pass_rate(hint)
        slope = 1.0 if isinstance(objective, LinearObjective) else (1 - (1 - p) ** (n - 1)) / p
        gradient = p * (1 - p) * toy.features(hint)
        expected += toy.chance(hint) * slope * gradient * (not is_refused)
        for answers in product((0, 1), repeat=n):
            chances = [toy.pass_rate(hint) if answer else 1 - toy.pass_rate(hint) for answer in answers]
            _, groups, _ = played(n, "It is 43." if is_refused else f"Think of {hint}.", WRONG, answers)
            weights = advantage.weigh(groups)
            assert not any(weights[0])  # the bare group is all wrong
            assert len(weights[1]) == (0 if is_refused else n)
            for weight, answer in zip(weights[1], answers, strict=False):
                update += toy.chance(hint) * np.prod(chances) * weight * toy.score(hint, answer)
    assert abs(expected).max() > 0.05
    np.testing.assert_allclose(update, expected, rtol=0, atol=1e-12)


def test_the_hint_is_asked_for_in_the_groups_slot_and_stands_in_the_prompt():
    step, (bare, given), asked = played(2, " Do it in two steps. ", WRONG, (1, 0))
    writing = asked[2]
    assert [(request.slot, request.sample_index) for request in asked[2:]] == [(2**20, -1), (2**20, 0), (2**20, 1)]
    said = "".join(map(chr, writing.ids))
    assert "6 * 7 + 1?" in said
    assert PROMPT.reference["solution"] in said
    assert LEVELS[1] in said
    assert writing.max_new_tokens == 256
    assert writing.prompt.messages == QUESTION  # what a reward is shown is the question itself
    assert bare.pool.prompt == PROMPT
    prompt = given.pool.prompt
    assert prompt.messages == (QUESTION[0], {"role": "user", "content": "6 * 7 + 1?\n\nHint: Do it in two steps."})
    assert "".join(map(chr, prompt.prompt_ids)) == prompt.messages[1]["content"]
    assert (prompt.prompt_id, prompt.hint) == ("p7#2", Hint(2, 3, "", len(prompt.prompt_ids) - 20, num_written=2))
    assert outcome("43", RIGHT).completion_of(prompt).text == "43"
    assert len({request.seed for request in asked}) == 5
    assert writing.seed == played(2, "Another.", WRONG, (0, 0))[2][2].seed
    assert (step.stats.num_drawn, step.stats.num_hinted, step.stats.written_tokens) == (4, 2, 2)
    assert step.stats.generated_tokens == 10


@pytest.mark.parametrize(
    ("said", "room", "reason"),
    [
        (outcome("Multiply, then add.", WRONG), 60, ""),
        (outcome("<think>43, so</think>Multiply.", WRONG), 60, ""),
        (outcome(" \n", WRONG), 60, "empty"),
        (outcome("<think>43</think>", WRONG), 60, "empty"),
        (Outcome("Multiply", (1,), (0.0,), True, WRONG), 60, "too_long"),
        (outcome("Multiply, then add one to that.", WRONG), 40, "too_long"),
        (outcome("You get 43 then.", WRONG), 60, "shows_answer"),
        (outcome("Forty-three.", RIGHT), 60, "graded_right"),
        (outcome("Multiply.", Verdict(None, failure="OSError")), 60, "not_graded"),
    ],
)
def test_a_hint_that_says_nothing_or_too_much_is_refused(said, room, reason):
    hints, right = text_hints(), None if said.grade.reward is None else said.grade.reward > 0.7
    given = hints.written(PROMPT, Hint(2, 3, "", 0, max_new_tokens=9), said, is_right=right, room=room)
    assert given.hint.refused == reason
    assert (given.hint.num_written, given.hint.max_new_tokens) == (said.num_tokens, 0)


def test_a_refused_hint_has_no_group_costs_one_response_and_ends_levels_as_a_visit():
    _, groups, asked = played(2, "It is 43.", WRONG, ())
    assert [request.sample_index for request in asked] == [0, 1, -1]
    hints = text_hints()
    figures = hints.figures(groups)
    assert [name for name in REASONS if figures[f"hints/refused_{name}"]] == ["shows_answer"]
    assert (figures["hints/groups"], figures["hints/prompts_reached"], figures["hints/generated_tokens"]) == (0, 0, 0)
    assert (figures["hints/written_tokens"], figures["hints/share"]) == (2, 1 / 3)
    assert groups[1].kept == ()
    levels = []
    for _ in range(20):
        bare = ResponsePool(PROMPT, 0, belief=Belief(1, 60), responses=[make_response(0, 0.0), make_response(1, 0.0)])
        if (asks := hints.follow(bare)) is None:
            hints.learn([bare])
            continue
        levels.append(asks.hint.level)
        refused = hints.written(PROMPT, asks.hint, outcome("43", WRONG), is_right=False, room=None)
        hints.learn([bare, ResponsePool(refused, 2**20)])
    assert levels == [2, 1, 1, 1]  # one up again behind a bare group that is all wrong
    assert hints.state_dict()["unreached"] == ["p7"]
    other = text_hints()
    other.load_state_dict(hints.state_dict())
    assert other.state_dict() == hints.state_dict()
    assert other.figures(())["hints/prompts_reached"] == 0


def test_the_writing_counts_as_one_response_of_the_share():
    for share, number in ((0.61, 1), (0.59, 0)):  # two and the writing are three of five
        step = step_of(2, max_share=share)
        while requests := step.ask():
            for request in requests:
                step.tell(request, outcome("", WRONG) if request.sample_index >= 0 else outcome("Think.", WRONG))
        assert step.stats.num_hinted == 2 * number


def test_without_a_chat_template_the_hint_stands_in_front():
    hints = text_hints()
    hints.connect(lambda prompt: map(ord, prompt.messages[-1]["content"]), has_turns=False)
    given = hints.written(PROMPT, Hint(1, 3, "", 0), outcome("Multiply.", WRONG), is_right=False, room=None)
    assert given.messages[-1]["content"] == "Hint: Multiply.\n\n6 * 7 + 1?"
    asks = hints.follow(ResponsePool(PROMPT, 0, responses=[make_response(0, 0.0), make_response(1, 0.0)]))
    assert "".join(map(chr, asks.prompt_ids)).endswith(f"{LEVELS[1]}\nHint:")


def test_prompts_without_a_solution_and_hints_without_a_tokenizer_are_refused():
    bare = Prompt("a", QUESTION)
    with pytest.raises(ValueError, match=r"none of the 1 training prompts has one\. Name the column .*solution_column"):
        TextHints().check_prompts([bare])
    TextHints().check_prompts([bare, PROMPT])
    wrong = [make_response(0, 0.0), make_response(1, 0.0)]
    assert text_hints().follow(ResponsePool(bare, 0, responses=wrong)) is None
    assert text_hints().follow(ResponsePool(PROMPT, 0, responses=wrong), room=99) is None  # for what asks for it
    with pytest.raises(RuntimeError, match=r"call connect\(encode, has_turns"):
        TextHints(p_min=0.9, doubt=1.0).follow(ResponsePool(PROMPT, 0, responses=wrong))
    with pytest.raises(ValueError, match=r"hints\.max_hint_tokens must be at least 1; got 0"):
        TextHints(max_hint_tokens=0)


def test_the_statement_says_what_they_follow_and_what_learns_nothing():
    lines = describe_update(
        advantage=ExactAdvantage(objective=LinearObjective()), sampler=UniformSampler(group_size=4),
        selection=AllSelection(), loss=ReinforceLoss(reduction=TokenMeanReduction()), num_minibatches=1,
        max_grad_norm=1.0, truncated="grade", hints=TextHints(),
    )  # fmt: skip
    (line,) = [line for line in lines if "hints:" in line]
    assert "follow the mean, over the hints that the policy would write, of the gradient of f(pass rate" in line
    assert "Nothing flows through the writing" in line


class Grader:
    """Takes nothing for right but what a hint stands in front of, every second time."""

    def __init__(self):
        self.shown, self._ready = [], []

    def submit(self, ticket, prompt, completion):
        self.shown.append((prompt.messages[-1]["content"], completion.text))
        is_right = "Hint: " in prompt.messages[-1]["content"] and ticket[2] % 2
        self._ready.append((ticket, Verdict(float(is_right))))

    def poll(self):
        ready, self._ready = self._ready, []
        return ready

    def wait(self, timeout_s):
        return self.poll()

    def discard_pending(self):
        self._ready.clear()


def test_a_real_model_writes_the_hint_and_answers_behind_it(tiny_path, tmp_path):
    """Its words are noise; nine of its tokens end a response, so some hints end in time."""
    tokenizer, ends = byte_tokenizer(), [2, *range(100, 108)]
    encoder = PromptEncoder(tokenizer, max_prompt_tokens=200)
    prompts = encoder.encode([Prompt(f"p{index}", QUESTION, PROMPT.reference) for index in range(6)])

    def sampled(num_slots):
        hints, grader = text_hints(max_share=0.5), Grader()
        hints.connect(encoder.token_ids, has_turns=encoder.prompt_format.reads(tokenizer, "messages"))
        service = RolloutService(
            engine=lambda **given: TransformersEngine(**given, max_num_seqs=num_slots, dtype="float32"),
            sampling=SamplingSettings(max_new_tokens=24), max_model_tokens=900, seed=5,
        )  # fmt: skip
        service.open(model_path=tiny_path, tokenizer=tokenizer, eos_token_ids=ends, grader=grader,
                     log_file=tmp_path / "engine.log")  # fmt: skip
        try:
            step = service.sample(
                lambda **given: Step(prompts, sampler=UniformSampler(group_size=2), selection=AllSelection(),
                                     follow_up=hints, **given),
                weights=lambda: named(load(tiny_path)), policy_version=0, stage="train", clock=PhaseClock(),
            )  # fmt: skip
        finally:
            service.close()
        return step.result(), grader

    result, grader = sampled(5)
    given = [group.pool for group in result.groups if group.pool.hint]
    assert {bool(pool.prompt.hint.refused) for pool in given} == {True, False}
    for pool in given:
        text = pool.prompt.messages[-1]["content"]
        assert text.startswith("6 * 7 + 1?\n\nHint: ")
        assert pool.prompt.prompt_ids == encoder.token_ids(pool.prompt)
        assert pool.num_drawn == (0 if pool.prompt.hint.refused else 2)
        assert [response.is_positive for response in pool.responses] == [False, True][: pool.num_drawn]
        if not pool.prompt.hint.refused:
            asked, hint = QUESTION[1]["content"], text.partition("Hint: ")[2]
            assert (asked, hint) in [(shown, said.strip()) for shown, said in grader.shown]  # graded by itself
    assert result.stats.written_tokens == sum(pool.prompt.hint.num_written for pool in given) > 0
    again, _ = sampled(2)
    assert [group.pool.prompt for group in again.groups] == [group.pool.prompt for group in result.groups]
    assert [[r.response_ids for r in group.pool.responses] for group in again.groups] == [
        [r.response_ids for r in group.pool.responses] for group in result.groups
    ]
