"""What hinted groups follow, enumerated on a policy of 2 tokens and 4 steps; when a hint is given, and how it falls."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ada_lightning.core.following import hinted
from ada_lightning.core.hint import Hint, Solution
from ada_lightning.core.method import Method
from ada_lightning.core.protocols import Curriculum, PassRateEstimator
from ada_lightning.core.records import Belief, KeptResponse, Outcome, Prompt, ResponseGroup, ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.advantages import ExactAdvantage
from ada_lightning.methods.hints import MIN_GROUPS, NoHints, PrefixHints, Progress, isotonic
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.published.sage import TextHints
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from tests.builders import make_response

STEPS = 4
PREFIXES = {prefix: place for place, prefix in enumerate(p for k in range(STEPS) for p in product((0, 1), repeat=k))}
SOLUTION = (1, 0, 1, 1)
RATES = [0.0011, 0.0234, 0.1965, 0.3825]
"""Pass rate with the first 0, 1, 2, 3 tokens of the solution given."""


def toy():
    """Logits of a 1 behind each prefix; the first two steps of the solution are unlikely."""
    logits = np.random.default_rng(5).normal(0, 0.5, len(PREFIXES))
    logits[PREFIXES[()]], logits[PREFIXES[1,]] = -3.0, 2.0
    return logits


def chance(logits, said, start):
    """Probability of the tokens behind the first so many."""
    rates = 1 / (1 + np.exp(-logits))
    places = [PREFIXES[said[:t]] for t in range(start, STEPS)]
    return float(np.prod([rates[i] if t else 1 - rates[i] for i, t in zip(places, said[start:], strict=True)]))


def score(logits, said, start, stop=STEPS):
    """Gradient of the log-probability of some tokens."""
    found = np.zeros(len(PREFIXES))
    for t in range(start, stop):
        found[PREFIXES[said[:t]]] += said[t] - 1 / (1 + np.exp(-logits[PREFIXES[said[:t]]]))
    return found


def under(k):
    return [SOLUTION[:k] + rest for rest in product((0, 1), repeat=STEPS - k)]


def rate(logits, k):
    return chance(logits, SOLUTION, k)


def gradient(logits, k):
    return chance(logits, SOLUTION, k) * score(logits, SOLUTION, k)


def updates(objective, n, k):
    """Expected update of a group of n under k tokens: of the tokens behind them, and of these tokens themselves."""
    logits, advantage = toy(), ExactAdvantage(objective=objective)
    own, of_prefix = np.zeros(len(PREFIXES)), np.zeros(len(PREFIXES))
    said = under(k)
    chances = {each: chance(logits, each, k) for each in said}
    scores = {each: (score(logits, each, k), score(logits, each, 0, k)) for each in said}
    for drawn in product(said, repeat=n):
        pool = ResponsePool(Prompt("toy", ()), 0, rule=FixedRule(n))
        for index, each in enumerate(drawn):
            pool.add(make_response(index, float(each == SOLUTION)))
        kept = tuple(KeptResponse(response, 1.0) for response in pool.responses)
        (weights,) = advantage.weigh([ResponseGroup(pool, kept)])
        probability = np.prod([chances[each] for each in drawn])
        for weight, each in zip(weights, drawn, strict=True):
            own += probability * weight * scores[each][0]
            of_prefix += probability * weight * scores[each][1]
    return own, of_prefix


def test_pass_rates_with_more_of_the_solution():
    assert [round(rate(toy(), k), 4) for k in range(STEPS)] == RATES
    assert [round(1 - p**4 - (1 - p) ** 4, 3) for p in (rate(toy(), k) for k in range(STEPS))] == [
        0.004, 0.09, 0.582, 0.833,
    ]  # fmt: skip


@pytest.mark.parametrize(("n", "k"), [(2, 0), (2, 1), (2, 2), (2, 3), (4, 1), (4, 2), (4, 3)])
@pytest.mark.parametrize("objective", [LinearObjective(), LogObjective()])
def test_a_hinted_group_follows_its_objective_of_the_pass_rate_under_the_hint(objective, n, k):
    """With f'(p): 1 for the linear one, and what n responses support of 1/p, (1 - (1-p)^(n-1)) / p, for the log."""
    p = rate(toy(), k)
    weight = 1.0 if isinstance(objective, LinearObjective) else (1 - (1 - p) ** (n - 1)) / p
    own, of_prefix = updates(objective, n, k)
    np.testing.assert_allclose(own, weight * gradient(toy(), k), rtol=0, atol=1e-15)
    np.testing.assert_allclose(of_prefix, 0.0, rtol=0, atol=1e-16)  # hinted tokens would learn nothing from it


def climb(choose, num_updates):
    """Bare pass rate after exact updates of size 1, each under the number of tokens that ``choose`` gives."""
    logits, found = toy(), []
    for _ in range(num_updates):
        logits = logits + gradient(logits, choose(logits))
        found.append(rate(logits, 0))
    return [round(found[place - 1], 4) for place in (50, 100, 200, 400)]


def test_a_hint_that_stays_never_helps_and_one_whose_rate_is_held_near_one_half_does():
    assert climb(lambda logits: 0, 400) == [0.0013, 0.0015, 0.0022, 0.0144]
    assert climb(lambda logits: 2, 400) == [0.0053, 0.0055, 0.0056, 0.0056]
    nearest = climb(lambda logits: min(range(STEPS), key=lambda k: abs(rate(logits, k) - 0.5)), 400)
    assert nearest == [0.0351, 0.0451, 0.9605, 0.9869]


def test_the_levels_of_the_part_fall_until_the_bare_prompt_is_solved():
    progress = Progress(level=2, ceiling=3)

    def feedback(logits):
        nonlocal progress
        level = progress.level
        if level:  # a level is given up by its rate alone here: exact updates are small
            progress = progress.after(level, STEPS - 1, rate(logits, level), visits_per_level=10**6)
        return level

    assert climb(feedback, 400)[-1] > 0.95
    assert progress.level == 0


KINDS = {"prefix": PrefixHints, "text": TextHints}
every_kind = pytest.mark.parametrize("kind", KINDS)


def part(kind, **options):
    hints = KINDS[kind](**options)
    hints.connect(lambda prompt: (7,) * (3 + int(prompt.prompt_id.partition("#")[2] or 5)), has_turns=True)
    return hints


def given_by(hints, prompt, level):
    """The prompt with a level of its hint, which the policy has written where it writes."""
    if not hints.writes:
        return hinted(prompt, level)
    wrote = Outcome("Think.", (1, 2), (0.0, 0.0), False)
    return hints.written(prompt, Hint(level, 3, "", 0, max_new_tokens=9), wrote, is_right=False, room=None)


def known(num_levels=4, prompt_id="p7", num_tokens=3):
    levels = tuple((2 * level, level) for level in range(1, num_levels + 1))
    text = "".join(f"{line}\n" for line in range(num_levels + 1))
    solution = Solution(text, tuple(range(50, 51 + num_levels)), levels)
    turns = ({"role": "user", "content": "?"},)
    return Prompt(prompt_id, turns, {"solution": text}, prompt_ids=(7,) * num_tokens, solution=solution)


def pool_of(prompt, rewards, belief=Belief(1, 60), slot=0):  # noqa: B008 - frozen
    pool = ResponsePool(prompt, slot, belief=belief)
    for index, reward in enumerate(rewards):
        pool.add(make_response(index, reward, prompt_id=prompt.prompt_id))
    return pool


def visit(hints, prompt, rewards, slot=0):
    """Let a hinted group of the prompt's present level come out so; its level."""
    again = hints.follow(pool_of(prompt, [0.0] * 4))
    assert again is not None
    given = given_by(hints, prompt, again.hint.level)
    assert given.hint.level == again.hint.level
    hints.learn([pool_of(prompt, [0.0] * 4), pool_of(given, rewards, slot=slot)])
    return again.hint.level


@pytest.mark.parametrize(
    ("rewards", "belief", "is_helped"),
    [
        ([0.0] * 4, Belief(1, 60), True),
        ([0.0] * 4, Belief(1, 54), False),  # 0.95^58 = 0.0510
        ([0.0] * 4, Belief(1, 55), True),  # 0.95^59 = 0.0485
        ([0.0] * 4, Belief(), False),
        ([0.0, 0.0, 0.0, 1.0], Belief(1, 600), False),
        ([0.0], Belief(1, 600), False),  # one response says too little
        ([], Belief(1, 600), False),
    ],
)
@every_kind
def test_a_prompt_is_helped_where_all_are_wrong_and_a_pass_rate_that_would_do_is_improbable(
    rewards, belief, is_helped, kind
):  # fmt: skip
    assert (part(kind).follow(pool_of(known(), rewards, belief)) is not None) is is_helped
    assert NoHints().follow(pool_of(known(), rewards, belief)) is None


@every_kind
def test_a_prompt_without_a_usable_solution_is_never_helped(kind):
    bare = Prompt("p7", ({"role": "user", "content": "?"},))
    assert part(kind).follow(pool_of(bare, [0.0] * 4)) is None
    assert PrefixHints().follow(pool_of(known(0), [0.0] * 4)) is None


@pytest.mark.parametrize(
    ("kind", "needed", "what"),
    [("prefix", 4, "prompt and hint"), ("text", 8, "prompt and solution, with the request for a hint")],
)
def test_prompts_of_which_none_has_room_for_a_hint_are_refused(kind, needed, what):
    hints, bare, long = part(kind), Prompt("bare", ({"role": "user", "content": "?"},)), known(num_tokens=99)
    hints.check_room([bare], 0)  # another check says that no prompt has a solution
    hints.check_room([bare, long, known()], needed)
    with pytest.raises(ValueError, match=rf"none of the 1 training .* leaves {needed - 1} tokens for {what}\. Use a "):
        hints.check_room([bare, known()], needed - 1)


def test_the_hint_is_the_beginning_of_the_models_turn():
    again = hinted(known(), 2)
    assert again.prompt_id == "p7#2"
    assert again.messages == ({"role": "user", "content": "?"}, {"role": "assistant", "content": "0\n1\n"})
    assert again.prompt_ids == (7, 7, 7, 50, 51)
    assert (again.hint.level, again.hint.num_levels, again.hint.text, again.hint.num_tokens) == (2, 4, "0\n1\n", 2)
    assert again.solution is None


def test_a_turn_that_is_begun_already_goes_on_with_the_hint():
    begun = Prompt("a", ({"role": "assistant", "content": "<think>"},), (), "", (1,), solution=known().solution)
    assert hinted(begun, 1).messages == ({"role": "assistant", "content": "<think>0\n"},)


@every_kind
def test_levels_rise_without_a_right_response_fall_where_half_is_right_and_stay_between(kind):
    hints, prompt = part(kind, visits_per_level=9), known(4)
    assert visit(hints, prompt, [0.0] * 4) == 2  # half of the levels, as nothing is known yet
    assert visit(hints, prompt, [1.0, 0.0, 0.0, 0.0]) == 3
    assert visit(hints, prompt, [1.0, 1.0, 0.0, 0.0]) == 3
    assert visit(hints, prompt, [1.0] * 4) == 2
    assert visit(hints, prompt, [1.0] * 4) == 1
    assert hints.follow(pool_of(prompt, [0.0] * 4)) is None  # level 0: an ordinary prompt
    hints.learn([pool_of(prompt, [0.0] * 4)])
    assert visit(hints, prompt, [0.0] * 4) == 1  # nobody solved it without


@given(
    st.lists(st.sampled_from([(0.0,) * 4, (1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 0.0, 0.0)]), min_size=40, max_size=40),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([*KINDS]),
)
def test_every_prompts_hints_come_to_an_end_whatever_comes_of_them(outcomes, num_levels, visits_per_level, kind):
    hints, prompt = part(kind, visits_per_level=visits_per_level), known(num_levels)
    num_levels = num_levels if kind == "prefix" else 3
    ceilings, levels = [num_levels], []
    for rewards in outcomes:
        bare = pool_of(prompt, [0.0] * 4)
        again = hints.follow(bare)
        hints.learn([bare] if again is None else [bare, pool_of(given_by(hints, prompt, again.hint.level), rewards)])
        if again is not None:
            levels.append(again.hint.level)
            assert again.hint.level <= ceilings[-1]
            ceilings.append(hints.state_dict()["progress"]["p7"][1])
    assert ceilings == sorted(ceilings, reverse=True)
    assert all(levels.count(level) <= visits_per_level for level in set(levels))
    assert len(levels) <= num_levels * visits_per_level


def test_the_first_level_is_the_lowest_at_which_others_were_right_half_of_the_time():
    hints = PrefixHints()
    for number in range(MIN_GROUPS // 4):
        for level, rewards in ((1, [0.0] * 4), (2, [1.0, 0.0, 0.0, 0.0]), (3, [1.0, 1.0, 1.0, 0.0]), (4, [1.0] * 4)):
            hints.learn([pool_of(hinted(known(4, f"p{number}{level}"), level), rewards)])
    assert hints.first_level(known(4)) == 3
    assert hints.first_level(known(8)) == 6
    assert hints.first_level(known(1)) == 1
    nowhere = PrefixHints()
    nowhere.learn([pool_of(hinted(known(4, f"q{number}"), 2), [0.0] * 4) for number in range(MIN_GROUPS)])
    assert nowhere.first_level(known(4)) == 4  # all that may be shown


def test_isotonic_rates_are_those_of_the_counts_where_they_rise():
    assert isotonic({}) == []
    assert isotonic({0.5: (1, 2), 1.0: (2, 2)}) == [(0.5, 0.5), (1.0, 1.0)]


@every_kind
def test_what_was_learned_survives_a_checkpoint_and_goes_on_alike(kind):
    hints, prompt = part(kind), known(4)
    visit(hints, prompt, [1.0, 0.0, 0.0, 0.0])
    hints.learn([pool_of(prompt, [1.0, 0.0, 0.0, 0.0])])
    other = part(kind)
    other.load_state_dict(hints.state_dict())
    assert other.state_dict() == hints.state_dict()
    number = 4 if kind == "prefix" else 3
    assert hints.state_dict()["progress"] == {"p7": [2, number, [0, 1, 0, 0][:number], True]}
    assert visit(other, prompt, [0.0] * 4) == visit(hints, prompt, [0.0] * 4) == 2
    assert other.state_dict() == hints.state_dict()


@every_kind
def test_a_step_under_way_keeps_what_was_known_before_it(kind):
    hints, prompt = part(kind), known(4)
    frozen = hints.frozen()
    visit(hints, prompt, [0.0] * 4)
    assert frozen.follow(pool_of(prompt, [0.0] * 4)).hint.level == 2
    assert hints.follow(pool_of(prompt, [0.0] * 4)).hint.level == 3


@every_kind
def test_figures_count_prompts_reached_and_those_solved_later(kind):
    hints, prompt = part(kind), known(4)
    bare, given_pool = pool_of(prompt, [0.0] * 4), pool_of(given_by(hints, prompt, 2), [1.0, 0.0, 0.0, 0.0])
    groups = [ResponseGroup(bare, ()), ResponseGroup(given_pool, ())]
    found = hints.figures(groups)
    assert found["hints/share"] == (0.5 if kind == "prefix" else 5 / 9)  # the writing is one more
    assert found["hints/generated_tokens"] == 8
    assert found.get("hints/written_tokens", 0) == (0 if kind == "prefix" else 2)
    level = 2 / 4 if kind == "prefix" else 2 / 3
    assert (found["hints/given_tokens"], found["hints/level"], found["hints/pass_rate"]) == (2, level, 0.25)
    assert (found["hints/prompts_reached"], found["hints/prompts_solved_later"]) == (1, 0)
    hints.learn([group.pool for group in groups])
    later = [ResponseGroup(pool_of(prompt, [1.0, 0.0]), ()), ResponseGroup(pool_of(known(4, "other"), [1.0, 0.0]), ())]
    found = hints.figures(later)
    assert (found["hints/groups"], found["hints/prompts_reached"], found["hints/prompts_solved_later"]) == (0, 1, 1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"p_min": 0}, "hints.p_min must be in (0, 1); got 0"),
        ({"doubt": 0}, "hints.doubt must be in (0, 1]; got 0"),
        ({"max_share": 1}, "hints.max_share must be in (0, 1), 0.25 for a quarter; got 1"),
        ({"visits_per_level": 0}, "hints.visits_per_level must be at least 1; got 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(setting, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)").replace("]", r"\]")):
        PrefixHints(**setting)


def test_prompts_without_solutions_are_refused_with_what_is_missing():
    bare = Prompt("p7", ())
    with pytest.raises(ValueError, match=r"none of the 1 training prompts has one\. Name the column .*solution_column"):
        PrefixHints().check_prompts([bare])
    with pytest.raises(ValueError, match="no level of the 1 solutions among the 1 training prompts can be used"):
        PrefixHints().check_prompts([known(0)])
    PrefixHints().check_prompts([bare, known(1)])


class Listening(PassRateEstimator, Curriculum, UniformSampler):
    """An estimator, a curriculum and a sampler that note what they are told."""

    def __init__(self):
        super().__init__(group_size=4)
        self.heard = []

    def update(self, pools):
        self.heard.append([pool.hint for pool in pools])

    def observe(self, pools):
        self.heard.append([pool.hint for pool in pools])

    def learn(self, pools):
        self.heard.append([pool.hint for pool in pools])


@every_kind
def test_no_estimator_curriculum_or_sampler_hears_of_hinted_groups(kind):
    hints, heard = part(kind), Listening()
    method = Method(estimator=heard, sampler=heard, selection=AllSelection(), curriculum=heard, hints=hints)
    method.learn([pool_of(known(), [0.0] * 4), pool_of(given_by(hints, known(), 2), [1.0, 0.0])], {})
    assert heard.heard == [[0], [0], [0]]
    number = 4 if kind == "prefix" else 3
    assert hints.state_dict()["progress"] == {"p7": [1, number, [0, 1, 0, 0][:number], False]}


def test_a_reward_sees_the_whole_turn_and_counts_what_was_drawn():
    outcome = Outcome("2\n#### 7", (1, 2, 3), (0.0,) * 3, False)
    completion = outcome.completion_of(hinted(known(), 2))
    assert (completion.text, completion.num_tokens) == ("0\n1\n2\n#### 7", 3)
    assert outcome.completion_of(known()) == outcome.completion
