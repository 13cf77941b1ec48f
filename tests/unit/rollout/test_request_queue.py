from __future__ import annotations

from types import SimpleNamespace

from ada_lightning.rollout.engines.engine_loop import Call
from ada_lightning.rollout.engines.request_queue import RequestQueue
from tests.builders import SETTINGS


def test_requests_that_were_lost_are_handed_out_again_in_the_order_of_their_launch_and_before_others():
    queue, seat = (
        RequestQueue(affinity=4),
        SimpleNamespace(index=0, in_flight=set(), is_ready=True, told=SimpleNamespace(max_num_seqs=99)),
    )
    names = [f"1.0/{slot}/0" for slot in range(13)]

    def take(number):
        return [queue.take([seat], {0: [(0, 99)]})[1].arguments[0] for _ in range(number)]

    for name in names:
        queue.add(Call(0, "submit", (name, (1,), SETTINGS, 0)), 0)
    assert take(12) == names[:12]
    queue.remove([names[4]])
    assert queue.put_back(set(names[:12])) == 11
    assert take(12) == [*names[:4], *names[5:]]
