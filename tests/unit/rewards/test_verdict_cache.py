from contextlib import closing

import pytest

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.hints import ungradable_prompts
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rewards.verdict_cache import VerdictCache
from tests.unit.rewards.naughty_rewards import ByFirstLetter, Counting, Detailed, Obedient

P, Q = Prompt("p", ()), Prompt("q", ())


def cached(cache, prompt, completion):
    return cache.get(cache.key(prompt, completion))


def test_equal_text_and_end_of_an_equal_prompt_have_one_grade():
    cache = VerdictCache(Counting(), size=10)
    cache.put(cache.key(P, Completion("12")), Verdict(0.5, answer="12", components={"a": 1.0}))
    assert cached(cache, Prompt("p", ()), Completion("12")) == Verdict(0.5, answer="12", components={"a": 1.0})
    assert cached(cache, P, Completion("12")).is_cached
    for prompt, completion in [(Q, Completion("12")), (P, Completion("12", "length")), (P, Completion("12 "))]:
        assert cached(cache, prompt, completion) is None


def test_a_prompt_of_two_tasks_has_two_grades():
    """An evaluation may ask one question under two names, and reward=by_task grades them differently."""
    cache = VerdictCache(Counting(), size=10)
    cache.put(cache.key(Prompt("p", (), task="exact"), Completion("12")), Verdict(1.0))
    assert cached(cache, Prompt("p", (), task="strict"), Completion("12")) is None


def test_failed_grades_are_not_remembered():
    cache = VerdictCache(Counting(), size=10)
    for reward in (None, 0.0):
        cache.put(cache.key(P, Completion("12")), Verdict(reward, failure="timeout"))
        assert cached(cache, P, Completion("12")) is None


def test_the_least_recently_used_goes_first():
    cache = VerdictCache(Counting(), size=2)
    for text in ("a", "b"):
        cache.put(cache.key(P, Completion(text)), Verdict(1.0))
    cached(cache, P, Completion("a"))
    cache.put(cache.key(P, Completion("c")), Verdict(1.0))
    assert [cached(cache, P, Completion(text)) is not None for text in "abc"] == [True, False, True]


def test_a_reward_may_say_what_it_judges_and_no_answer_differs_from_the_answer_none():
    cache = VerdictCache(ByFirstLetter(), size=10)
    cache.put(cache.key(P, Completion("ab")), Verdict(1.0))
    assert cached(cache, P, Completion("ac", "length")) == Verdict(1.0)
    assert cached(cache, P, Completion("bb")) is None
    assert cache.key(P, Completion("")) is None  # its key raises: the worker will say what is wrong
    boxed = VerdictCache(MathReward(), size=10)
    assert len({boxed.key(P, Completion(text)) for text in ("", r"\boxed{None}", r"\boxed{=}")}) == 3


@pytest.mark.parametrize(("reward", "size"), [(Obedient(), 10), (Counting(), 0)])
def test_a_reward_that_opts_out_or_no_size_remembers_nothing(reward, size):
    assert VerdictCache(reward, size=size).key(P, Completion("12")) is None


@pytest.fixture(scope="module")
def shared_pool():
    pool = RewardPool(Counting(), time_limit_s=2.0)
    yield pool
    pool.close()


def wait_for(pool, ticket, prompt, text):
    pool.submit(ticket, prompt, Completion(text))
    [(returned, grade)] = pool.wait(120)
    assert returned == ticket
    return grade


def test_the_pool_grades_an_equal_response_once_and_a_failed_one_anew(shared_pool):
    first, again = (wait_for(shared_pool, ticket, P, "x") for ticket in "ab")
    assert (first.is_cached, again.is_cached) == (False, True)
    assert again == first
    other = wait_for(shared_pool, "c", Q, "x")
    assert (other.is_cached, other.reward) == (False, first.reward + 1)
    assert [wait_for(shared_pool, ticket, P, "fail") for ticket in "de"] == [Verdict(0.0, failure="LookupError")] * 2
    assert wait_for(shared_pool, "f", P, "y").reward == first.reward + 4  # both of them reached the reward


def test_a_remembered_grade_waits_for_its_caller_as_others_do(shared_pool):
    wait_for(shared_pool, "a", P, "z")
    shared_pool.submit("b", P, Completion("z"))
    assert shared_pool.num_pending == 1
    with pytest.raises(ValueError, match="'b' is pending already"):
        shared_pool.submit("b", P, Completion("z"))
    shared_pool.discard_pending()
    assert shared_pool.num_pending == 0
    assert shared_pool.poll() == []


def test_all_that_a_verdict_says_comes_back():
    with closing(RewardPool(Detailed(), cache_size=0)) as pool:
        grades = [wait_for(pool, "a", P, "2.5"), wait_for(pool, "b", P, "nan")]
    assert grades == [
        Verdict(0.5, failure="", answer="stop", components={"a": 1.0, "b": 2.5}),
        Verdict(0.0, failure="invalid_reward"),
    ]


def prompts_with(*checks):
    return [Prompt(str(i), ({"role": "user", "content": f"{i}?"},), {"check": c}) for i, c in enumerate(checks)]


def test_prompts_that_cannot_be_graded_are_found_whatever_their_check_does(shared_pool):
    checks = [""] * 200
    checks[3], checks[70], checks[71], checks[150] = "unusable", "kill", "raise:odd", "hang:1000"
    assert shared_pool.check_references(prompts_with(*checks)) == {
        3: "no number",
        70: "crash",
        71: "ZeroDivisionError: odd",
        150: "timeout",
    }


def test_a_reward_without_an_opinion_starts_no_process():
    pool = RewardPool(Obedient())
    assert ungradable_prompts(pool, [P, Q], "training") == {}
    assert pool._processes is None


def test_ungradable_prompts_are_found_and_listed_by_kind(shared_pool):
    prompts = prompts_with("", *["unusable"] * 6, "")
    with pytest.warns(UserWarning, match=r"Counting cannot grade 6 of 8 training prompts, .*") as caught:
        found = ungradable_prompts(shared_pool, [*prompts, *prompts], "training")
    assert found == {prompt.prompt_id: "no number" for prompt in prompts[1:7]}
    lines = str(caught[0].message).splitlines()
    assert lines[1:] == ["  6, for example 1 ('1?'): no number"]


def test_where_none_can_be_graded_the_run_ends_with_the_reason(shared_pool):
    with pytest.raises(ValueError, match="Counting can grade none of the 2 held-out prompts: no number"):
        ungradable_prompts(shared_pool, prompts_with("unusable", "unusable"), "held-out")
    assert ungradable_prompts(shared_pool, [], "held-out") == {}
