import os
import signal
import threading

import pytest

from headrace.flows.interrupt import Interrupts

INT, TERM = signal.SIGINT, signal.SIGTERM


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def _as_before():
    """Whoever listened before listens again."""
    before = {number: signal.getsignal(number) for number in (INT, TERM)}
    yield
    assert {number: signal.getsignal(number) for number in (INT, TERM)} == before


@pytest.mark.parametrize("number", [INT, TERM])
def test_the_first_one_raises_while_nothing_is_in_flight(number):
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            send(number)
        send(number)  # cleaning up is not interrupted
        assert not interrupts.asked


@pytest.mark.parametrize("first", [INT, TERM])
@pytest.mark.parametrize("second", [INT, TERM])
def test_while_shards_are_in_flight_the_first_one_asks_and_the_second_one_raises(first, second):
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt), interrupts.patient():  # noqa: PT012 - by the second
            send(first)
            assert interrupts.asked
            send(second)
        send(second)
        send(first)


def test_what_comes_after_the_shards_is_not_interrupted():
    with Interrupts() as interrupts:
        with interrupts.patient():
            pass
        send(INT)
        assert not interrupts.asked


def test_another_thread_listens_to_nothing():
    handlers = []

    def work():
        with Interrupts() as interrupts, interrupts.patient():
            handlers.append(signal.getsignal(INT))
            assert not interrupts.asked

    before = signal.getsignal(INT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [before]
