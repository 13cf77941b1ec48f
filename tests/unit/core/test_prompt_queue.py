from __future__ import annotations

import pytest

from ada_lightning.core.prompt_queue import PromptQueue, QueuePosition
from ada_lightning.methods.curriculum import UniformCurriculum
from ada_lightning.methods.published.greso import GresoCurriculum
from tests.builders import make_pool
from tests.unit.methods.curriculum.histories import ids, prompts


def make_queue(total=12, per_step=4, curriculum=None, position=None, **changes):
    curriculum = curriculum or UniformCurriculum()
    known = prompts(total)
    return PromptQueue(
        stretch=lambda n: curriculum.choose(known, per_step, step=n, seed=0, recall=lambda asked: []),
        num_plain=per_step, num_distinct=total, position=position or QueuePosition(0, 0), **changes,
    )  # fmt: skip


def take(queue, step, num):
    queue.go_to(step)
    chosen = ids(queue.first(num))
    queue.num_used = len(chosen)
    return chosen


def test_steps_that_take_their_share_have_the_curriculums_stretches():
    queue = make_queue()
    known = prompts(12)
    for step in range(7):
        stretch = UniformCurriculum().choose(known, 4, step=step, seed=0, recall=lambda asked: [])
        assert take(queue, step, 4) == ids(stretch)
        assert queue.position.is_plain


def test_no_prompt_is_lost_or_comes_twice_in_an_epoch_however_many_a_step_takes():
    queue = make_queue()
    sizes = [4, 7, 1, 5, 7, 9, 3]
    seen = [prompt for step, size in enumerate(sizes) for prompt in take(queue, step, size)]
    for epoch in range(3):
        assert len(set(seen[12 * epoch : 12 * epoch + 12])) == 12


def test_a_step_grows_without_changing_what_it_has():
    queue = make_queue()
    first = ids(queue.first(4))
    assert ids(queue.first(9))[:4] == first
    assert ids(queue.first(4)) == first


def test_beyond_its_share_no_prompt_comes_twice_in_a_step():
    """The second epoch begins within the step; who was in it already is put off to the next."""
    queue = make_queue(total=6, per_step=4)
    take(queue, 0, 4)
    second = take(queue, 1, 6)
    assert len(second) == 6
    assert all(prompt not in second[:index] for index, prompt in enumerate(second) if index >= 4)
    put_off, *rest = ids(queue.after().waiting)
    assert put_off in second
    assert rest  # of the last stretch, which this step did not need
    assert take(queue, 2, 4)[: 1 + len(rest)] == [put_off, *rest]
    queue = make_queue()
    take(queue, 0, 4)
    assert len(set(take(queue, 1, 12))) == 12  # the last four come between others of the second epoch


def test_what_a_step_is_given_when_all_prompts_are_in_it_is_all_there_is():
    queue = make_queue(total=6, per_step=4)
    assert sorted(ids(queue.first(100))) == sorted(ids(prompts(6)))
    assert len(make_queue(total=3, per_step=8).first(8)) == 8  # a step's own share repeats where there are too few
    assert len(make_queue(total=3, per_step=8).first(20)) == 8


@pytest.mark.parametrize("stop", [1, 3])
def test_a_resumed_queue_continues_with_what_would_have_come(stop):
    sizes = [7, 5, 9, 4, 6, 11]
    whole = make_queue()
    expected = [take(whole, step, size) for step, size in enumerate(sizes)]
    before = make_queue()
    for step in range(stop):
        take(before, step, sizes[step])
    resumed = make_queue(position=before.after())
    assert [take(resumed, step, sizes[step]) for step in range(stop, len(sizes))] == expected[stop:]
    take(before, stop, sizes[stop])  # stopped within this step, of which nothing is noted
    again = make_queue(position=before.now())
    assert [take(again, step, sizes[step]) for step in range(stop, len(sizes))] == expected[stop:]


def test_a_curriculum_that_filters_gives_a_full_step_all_the_same_and_ends_where_it_gives_nothing():
    greso = GresoCurriculum(p_start=0.05)
    for _ in range(6):
        greso.observe([make_pool([0.0] * 4, key=key) for key in range(10)])
    queue = make_queue(curriculum=greso)
    assert len(queue.first(4)) == 4
    assert {"p10", "p11"} <= set(ids(queue.first(4)))

    class Nothing(UniformCurriculum):
        def choose(self, prompts, num_prompts, **options):
            return []

    assert make_queue(curriculum=Nothing()).first(4) == []
