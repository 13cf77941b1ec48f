"""Episodes through the driver: a scripted engine, environments of tests, the step as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ada_lightning.core.schedule import Continuous
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes, turn_seed
from ada_lightning.rollout.episodes.pool import EnvironmentPool
from ada_lightning.rollout.grader import StepwiseGrader
from research.benchmarks.faults.environments import FAULTS, HARMLESS
from research.benchmarks.faults.hostile import play, prompts_of
from research.scripted import ScriptedEngine
from tests import builders
from tests.builders import SETTINGS, InstantGrader, make_prompt
from tests.unit.rollout.episodes.local import HERE, LocalEnvironments

BALANCE = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
SCAFFOLD = [901, 902]


def scattered(**options):
    """An engine whose requests end in any order."""
    polls = lambda generator, is_positive: generator.randrange(1, 9)  # noqa: E731
    return ScriptedEngine(pass_rates={1: 0.5, 2: 0.2, 3: 0.0}, num_polls=polls, **options)


def collect(environments, prompts, *, engine=None, sampler=BALANCE, max_turns=4, grader=None, **options):
    episodes = OpenEpisodes(environments, lambda text: SCAFFOLD, max_turns=max_turns, seed=0)
    found = builders.collect(
        prompts, engine or scattered(), sampler, episodes=episodes, grader=grader or InstantGrader(), **options
    )
    assert (episodes.num_open, episodes.drop(None)) == (0, 0)
    return found


def told(groups):
    """All that a step knows of its responses, but for their turns."""
    return [[replace(response, episode=None) for response in group.pool.responses] for group in groups]


@pytest.mark.parametrize("reproducible", [False, True])
def test_an_environment_of_one_turn_changes_nothing(monkeypatch, reproducible):
    prompts = [1, 2, 3, 1, 2]
    expected, stats = builders.collect(prompts, scattered(), BALANCE, reproducible=reproducible)
    groups, own = collect(LocalEnvironments(monkeypatch, "OneTurn"), prompts, reproducible=reproducible)
    assert told(groups) == told(expected)
    assert [[kept.response.sample_index for kept in group.kept] for group in groups] == [
        [kept.response.sample_index for kept in group.kept] for group in expected
    ]
    assert (own.num_drawn, own.generated_tokens) == (stats.num_drawn, stats.generated_tokens)
    assert {response.episode.ended_by for group in groups for response in group.pool.responses} == {"done"}


def test_an_episode_is_the_exact_tokens_of_its_turns_with_those_of_the_environment_between(monkeypatch):
    environments = LocalEnvironments(monkeypatch, "Echo", turns=3)
    (group,), stats = collect(environments, [1], sampler=UniformSampler(group_size=6))
    for response in group.pool.responses:
        ids, episode = response.response_ids, response.episode
        assert ids[1:3] == ids[4:6] == tuple(SCAFFOLD)
        assert episode.is_sampled == (True, False, False, True, False, False, True)
        assert response.sampled_ids == ids[::3]
        assert response.sampling_logprobs == (-0.5, 0.0, 0.0) * 2 + (-0.5,)
        assert [turn.text for turn in episode.turns] == [str(token) for token in ids[::3]]
        assert [turn.reply for turn in episode.turns] == [f"1: {ids[0]}", f"2: {ids[3]}", ""]
        assert (response.text, response.num_tokens) == (str(ids[6]), 3)
        assert response.reward == float(ids[6] == 1)  # the reward grades the last turn
    assert len({response.sampled_ids for response in group.pool.responses}) > 1  # turns have seeds of their own
    assert (stats.generated_tokens, stats.num_drawn) == (18, 6)


def test_what_finishes_first_changes_no_pool(monkeypatch):
    found = []
    for late, slots in ((False, 256), (True, 256), (True, 3)):
        environments = LocalEnvironments(monkeypatch, "Noisy", late=late)
        groups, _ = collect(environments, [1, 2, 1], engine=scattered(max_num_seqs=slots))
        found.append(groups)
    first, *others = (told(groups) for groups in found)
    assert all(other == first for other in others)
    responses = [response for group in found[0] for response in group.pool.responses]
    assert all(len(response.episode.turns) == 3 for response in responses)
    assert len({response.components["noise"] for response in responses}) > len(responses) // 2
    assert sum(turn.num_calls for turn in responses[0].episode.turns) == 2


def test_decoding_never_waits_for_an_environment(monkeypatch):
    environments, engine, in_flight = LocalEnvironments(monkeypatch, "Noisy", late=True), scattered(max_num_seqs=4), []
    wait = environments.wait
    environments.wait = lambda timeout_s: [in_flight.append(engine.num_in_flight()), wait(timeout_s)][1]
    collect(environments, [1, 2, 1], engine=engine)
    assert set(in_flight) == {0}


def test_with_verdicts_at_fixed_steps_so_are_the_answers_of_environments(monkeypatch):
    found = []
    for late in (False, True):
        environments = StepwiseGrader(LocalEnvironments(monkeypatch, "Noisy", late=late), delay=3)
        engine = scattered(max_num_seqs=5)
        submitted = []
        submit = engine.submit
        engine.submit = lambda *request, submit=submit, submitted=submitted, engine=engine: (
            submitted.append((engine._clock, request)),
            submit(*request),
        )
        collect(environments, [1, 2, 1], engine=engine, reproducible=True)
        found.append(submitted)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "max_turns", "max_model_tokens", "ended_by", "num_turns", "reward"),
    [
        ("Unlimited", 3, 1024, "turns", 3, 0.25),
        ("Unlimited", 9, 13, "context", 4, 0.25),  # 3 of the prompt, then 1 and 2 for each turn
        ("Unlimited", 9, 12, "context", 3, 0.25),
    ],
)
def test_a_limit_ends_an_episode_and_the_environment_says_what_it_is_worth(
    monkeypatch, name, max_turns, max_model_tokens, ended_by, num_turns, reward
):
    environments = LocalEnvironments(monkeypatch, name)
    engine = scattered(max_model_tokens=max_model_tokens)
    (group,), stats = collect(
        environments, [1], engine=engine, sampler=UniformSampler(group_size=4), max_turns=max_turns
    )
    for response in group.pool.responses:
        assert (response.episode.ended_by, len(response.episode.turns)) == (ended_by, num_turns)
        assert (response.reward, response.is_truncated) == (reward, True)
        assert response.episode.turns[-1].reply == ""
        assert len(response.response_ids) == 3 * num_turns - 2  # an answer that nobody reads is no part of it
        assert 3 + len(response.response_ids) <= max_model_tokens
    assert stats.num_truncated == 4


@pytest.mark.parametrize(("max_turns", "max_model_tokens"), [(3, 1024), (9, 13)])
@pytest.mark.parametrize("says_text", [True, False])
def test_an_environment_that_goes_on_at_a_limit_is_ended(monkeypatch, max_turns, max_model_tokens, says_text):
    environments = LocalEnvironments(monkeypatch, "Endless", says_text=says_text)
    submit = environments.submit

    def submit_few(*call):
        assert len(environments.calls) < 100, "asked without end"
        submit(*call)

    environments.submit = submit_few
    engine = scattered(max_model_tokens=max_model_tokens)
    (group,), stats = collect(
        environments, [1], engine=engine, sampler=UniformSampler(group_size=4), max_turns=max_turns
    )
    assert [response.reward for response in group.pool.responses] == [0.0] * 4
    assert all(len(response.episode.turns) <= max_turns for response in group.pool.responses)
    assert dict(stats.failures) == {"environment_invalid_reply": 4}
    (detail,) = stats.failure_details.values()
    assert "Endless.cut returned" in detail
    assert "it must return End" in detail


@pytest.mark.parametrize(("max_turns", "max_model_tokens", "reward"), [(3, 1024, 0.75), (9, 13, 1.0)])
def test_rewards_of_turns_are_summed_and_the_grader_is_not_asked(monkeypatch, max_turns, max_model_tokens, reward):
    environments, grader = LocalEnvironments(monkeypatch, "Rewarded"), InstantGrader()
    engine = scattered(max_model_tokens=max_model_tokens)
    (group,), _ = collect(
        environments, [1], engine=engine, sampler=UniformSampler(group_size=4), max_turns=max_turns, grader=grader
    )
    assert [response.reward for response in group.pool.responses] == [reward] * 4
    assert grader.num_graded == 0


@pytest.mark.parametrize(("truncated", "rewards"), [("grade", {0.25}), ("zero", {0.0}), ("exclude", set())])
def test_an_episode_that_a_limit_ended_counts_as_the_run_says(monkeypatch, truncated, rewards):
    environments = LocalEnvironments(monkeypatch, "Unlimited")
    (group,), _ = collect(environments, [1], sampler=UniformSampler(group_size=4), max_turns=2, truncated=truncated)
    assert {response.reward for response in group.pool.responses} == rewards
    assert group.pool.num_drawn >= 4


def test_a_turn_cut_by_the_length_limit_ends_its_episode(monkeypatch):
    class CutEngine(ScriptedEngine):
        def poll(self):
            return [replace(found, is_truncated=found.response_ids == (1,)) for found in super().poll()]

    environments = LocalEnvironments(monkeypatch, "Echo", turns=2)
    engine = CutEngine(pass_rates={1: 0.5})
    (group,), _ = collect(environments, [1], engine=engine, sampler=UniformSampler(group_size=16))
    for response in group.pool.responses:
        is_cut = response.sampled_ids[-1] == 1
        assert (response.episode.ended_by == "length") is is_cut is response.is_truncated
        assert 1 not in response.sampled_ids[:-1]


def test_what_is_dropped_is_wasted_with_all_its_turns(monkeypatch):
    """Drawn ahead of a prompt that then stopped; nothing of it stays behind."""
    ahead = Continuous(fill_to=64, min_chance=0.3, max_waste_ratio=10.0)
    found = []
    for schedule in (Continuous(), ahead):
        environments = LocalEnvironments(monkeypatch, "Noisy", late=True)
        engine = scattered(max_num_seqs=64)
        generated = []
        poll = engine.poll
        engine.poll = lambda poll=poll, generated=generated: [generated.append(done) or done for done in poll()]
        groups, stats = collect(environments, [1, 2, 1, 2], engine=engine, schedule=schedule)
        assert len(generated) == stats.generated_tokens + stats.wasted_tokens
        found.append((told(groups), stats.wasted_tokens > 0))
    assert found[0][0] == found[1][0]
    assert (found[0][1], found[1][1]) == (False, True)


def test_an_engine_that_breaks_between_turns_costs_no_episode(monkeypatch):
    from ada_lightning.core.step import Step
    from ada_lightning.core.step_records import StepSettings
    from ada_lightning.methods.selection import AllSelection
    from ada_lightning.rollout.driver import Driver

    class BreakingEngine(ScriptedEngine):
        num_left = 6

        def poll(self):
            self.num_left -= 1
            if self.num_left == 0:
                raise RuntimeError("worker died")
            return super().poll()

    def drawn(*engines):
        environments = LocalEnvironments(monkeypatch, "Noisy")
        episodes = OpenEpisodes(environments, lambda text: SCAFFOLD, max_turns=4, seed=0)
        settings = StepSettings(seed=0)
        steps = [
            Step([make_prompt(1)], sampler=UniformSampler(group_size=3), selection=AllSelection(), settings=settings,
                 first_slot=slot)
            for slot in range(6)
        ]  # fmt: skip
        driver = Driver(
            steps, sampling=SETTINGS, settings=settings, grader=InstantGrader(), decode=builders.decode,
            episodes=episodes, outlives_engine=True,
        )  # fmt: skip
        for broken in engines[:-1]:
            with pytest.raises(EngineError):
                list(driver.run(broken))
        list(driver.run(engines[-1]))
        assert driver.num_generated == 18
        return told(group for step in steps for group in step.finish())

    polls = lambda generator, is_positive: generator.randrange(1, 4)  # noqa: E731
    broken = BreakingEngine(pass_rates={1: 0.5}, num_polls=polls, max_num_seqs=7)
    assert drawn(broken, scattered(max_num_seqs=7)) == drawn(scattered(max_num_seqs=7))


def test_an_interrupt_leaves_nothing_open(monkeypatch):
    clock = iter(range(5))

    def interrupt():
        if next(clock, None) is None:
            raise KeyboardInterrupt

    environments, engine = LocalEnvironments(monkeypatch, "Noisy", late=True), scattered(max_num_seqs=4)
    episodes = OpenEpisodes(environments, lambda text: SCAFFOLD, max_turns=4, seed=0)
    with pytest.raises(KeyboardInterrupt):
        builders.collect([1, 2], engine, BALANCE, episodes=episodes, interrupt_check=interrupt)
    assert (engine.num_in_flight(), episodes.num_open, environments.wait(0)) == (0, 0, [])


def test_the_first_turn_has_the_seed_of_the_response_and_later_ones_their_own():
    assert turn_seed(5, 0) == 5
    assert len({turn_seed(5, turn) for turn in range(50)}) == 50
    assert (turn_seed(None, 0), turn_seed(None, 3)) == (None, None)


def test_hostile_environments_end_in_a_counted_episode_and_disturb_no_other():
    """In real workers: none lost, none counted twice, each by the reason and to whom it is due."""
    heard = []

    def continuation(text):
        heard.append(text)
        return SCAFFOLD

    kinds = len(FAULTS) + len(HARMLESS)
    prompts = prompts_of(5 * kinds, hostile=True)
    with_workers = EnvironmentPool(
        "research.benchmarks.faults.environments.Hostile", num_workers=2, time_limit_s=1.0, memory_limit_gb=1.0
    )
    try:
        with_workers.start()
        found = play(prompts, scattered(max_num_seqs=8), continuation, with_workers)
    finally:
        with_workers.close()
    assert (found["episodes"], found["lost"], found["twice"], found["wrong"]) == (10 * kinds, 0, 0, 0)
    assert sum(found["failures"].values()) == 2 * len(FAULTS)
    assert max(map(len, heard)) == 2000
    assert "?\x00<|im_end|>" in heard


def test_an_environment_that_has_less_than_it_needs_is_refused_before_anything_starts():
    for path, message in (
        ("Game", "must name a class as"),
        ("nowhere.Game", r"cannot import 'nowhere'.*next to train.py \(ada train: in the current folder\), or install"),
        (f"{HERE}.random", r"names no class; derive one from ada_lightning\.core\.protocols\.environment\.Environment"),
        (f"{HERE}.Plain", r"a class without start\(prompt, seed\), cut\(\); define what is missing\. A class der"),
        (f"{HERE}.Misspelt", r"names a class without turn\(said\); define what is missing"),
        (f"{HERE}.Deaf", r"names a class without turn\(said\); define what is missing"),
        (f"{HERE}.End", r"names a class without start\(prompt, seed\), turn\(said\), cut\(\); .*needs turn\(said\) al"),
        (f"{HERE}.Echo", "arguments do not go with"),
    ):
        with pytest.raises(ValueError, match=message):
            EnvironmentPool(path).check()
    EnvironmentPool(f"{HERE}.Whole").check()
    with pytest.raises(ValueError, match=r"environment\.max_turns must be at least 1"):
        EnvironmentPool(f"{HERE}.OneTurn", max_turns=0)
    with pytest.raises(ValueError, match=r"environment\.num_workers must be at least 1"):
        EnvironmentPool(f"{HERE}.OneTurn", num_workers=0)
