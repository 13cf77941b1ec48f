import os
import signal

import pytest

from ada_lightning.run.stopping import StopSignals

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@pytest.fixture
def signals():
    taken = StopSignals("without a checkpoint", NUMBERS)
    taken.install()
    yield taken
    taken.restore()


@pytest.mark.parametrize(
    ("sent", "received", "is_forced"),
    [
        (["SIGTERM"], "SIGTERM", False),
        (["SIGUSR1", "SIGTERM"], "SIGUSR1", False),
        (["SIGTERM", "SIGUSR1"], "SIGTERM", False),
        (["SIGINT", "SIGTERM"], "SIGINT", False),
        (["SIGINT", "SIGINT"], "SIGINT", True),
        (["SIGTERM", "SIGTERM"], "SIGTERM", True),
        (["SIGUSR1", "SIGTERM", "SIGTERM"], "SIGUSR1", True),
        (["SIGTERM", "SIGINT"], "SIGTERM", True),
    ],
)
def test_the_same_signal_again_or_an_interrupt_is_an_order_another_one_is_not(signals, sent, received, is_forced):
    *first, last = [signal.Signals[name] for name in sent]
    for number in first:
        os.kill(os.getpid(), number)
    if is_forced:
        with pytest.raises(KeyboardInterrupt, match=last.name):
            os.kill(os.getpid(), last)
    else:
        os.kill(os.getpid(), last)
        with pytest.raises(KeyboardInterrupt, match=received):
            signals.check()
    assert signals.received.name == received
    assert signals.is_forced == is_forced


def test_the_echo_of_a_launcher_is_not_a_second_signal(signals):
    signals.echo_s = 60.0
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    assert not signals.is_forced


def test_signals_are_given_back():
    before = [signal.getsignal(number) for number in NUMBERS]
    signals = StopSignals("", NUMBERS)
    signals.install()
    assert [signal.getsignal(number) for number in NUMBERS] != before
    signals.restore()
    assert [signal.getsignal(number) for number in NUMBERS] == before
