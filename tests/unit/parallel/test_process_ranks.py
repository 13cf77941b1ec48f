"""The leader's order is everybody's order, and nobody is left waiting."""

from __future__ import annotations

import pytest

from tests.unit.parallel import collective_jobs as jobs


def test_followers_do_what_the_leader_says_and_finish_what_it_leaves(pair):
    """Of a stream of 0+0, 1+1, 2+2 the leader uses the first piece; the others go through all of them."""
    leader, follower = pair.run(jobs.follow_commands)
    assert leader == (7, ["a", 0, "b", "end", 0, 1])
    assert follower == (None, ["a", 0, 2, 4, "b"])


@pytest.mark.parametrize(
    ("kind", "leader", "follower"),
    [
        ("error", ("ValueError", "bad"), ("LeaderStopped", "the leading process ended the run: ValueError: bad")),
        ("interrupt", ("KeyboardInterrupt", "SIGINT"), ("KeyboardInterrupt", "SIGINT")),
    ],
)
def test_what_ends_the_leader_ends_the_others(pair, kind, leader, follower):
    assert pair.run(jobs.stop, kind=kind) == [leader, follower]


def test_a_signal_to_one_process_stops_both(pair):
    other, own = ("KeyboardInterrupt", "another process was asked to stop"), ("KeyboardInterrupt", "SIGTERM")
    assert pair.run(jobs.interrupt_on, rank=1) == [other, own]
    assert pair.run(jobs.interrupt_on, rank=0) == [own, other]
    assert pair.run(jobs.interrupt_on, rank=-1) == [None, None]


def test_figures_add_up_over_replicas_and_count_once_in_each(pair):
    expected = {"tokens": 7.0, "gap_max": 5.0}, {"tokens": 3.0}
    assert pair.run(jobs.totals) == [expected, expected]


def test_only_the_leader_commands(pair):
    assert pair.run(jobs.command_of_a_follower) == [
        None,
        ("RuntimeError", "note is collective: only the leading process may start it, inside of lead()"),
    ]


@pytest.mark.parametrize(("hidden", "lacking"), [(False, []), (True, ["b"])])
def test_a_host_that_does_not_see_a_file_of_the_leader_is_named(pair, tmp_path, hidden, lacking):
    folder = str(tmp_path)
    assert [found for found, _ in pair.run(jobs.look_for_a_file, folder=folder, hidden=hidden)] == [lacking, lacking]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("names", "others"), [("ab", [[1], [0]]), ("aa", [None, None])])
def test_processes_of_several_hosts_hear_of_each_other(pair, names, others):
    """Those of one host need no sign of life: the system closes what a process leaves open."""
    heard = pair.run(jobs.watch_hosts, names=names)
    assert [None if each is None else sorted(each) for each in heard] == others
