"""What is learned and what is counted change together or not at all, wherever an interrupt or an error strikes."""

import copy
import signal
import sys
import threading

import numpy as np
import pytest
from support.learners import bits, every_implementation

import perceptrank as pr
from perceptrank.learners import learner as learner_module

_FOLDER = learner_module.__file__.removesuffix("learner.py")


def run_until(number, call):
    """Call, with an interrupt before instruction `number` of the learners' own bytecode; count them up to it."""
    done = 0

    def trace(frame, event, _):
        nonlocal done
        if not frame.f_code.co_filename.startswith(_FOLDER):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            done += 1
            if done == number:
                raise KeyboardInterrupt
        return trace

    traced = sys.gettrace()  # a coverage tool's, for example
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(traced)
    return done


def is_scaled(learner):
    return "transforms" in learner.parameter_names


def ways_to_learn(stream):
    block = stream[20:23]
    X, relevance = stream[23].X, stream[23].relevance
    return {
        "learn_one": lambda one: one.learn_one(X, relevance),
        "learn": lambda one: one.learn(block, "ndcg@3"),
        "fit": lambda one: one.fit(block),
        "set_params": lambda one: one.set_params(**{"learner__" * (not is_scaled(one)) + "transforms": "running"}),
    }


# What a call of many instructions costs grows with the square of their number, unless places are limited.
@pytest.mark.parametrize("n_places", [40, pytest.param(None, marks=pytest.mark.deep)])
@pytest.mark.parametrize("way", ["learn_one", "learn", "fit", "set_params"])
@every_implementation
def test_an_interrupt_before_any_instruction_changes_all_or_nothing(make, way, n_places, stream):
    learn = ways_to_learn(stream)[way]
    start, finished = make(), make()
    start.learn(stream[:20])
    finished.learn(stream[:20])
    learn(finished)
    learn(finished if way == "set_params" else copy.copy(finished))  # what is compiled or imported late is there now
    outcomes = [start.as_document(), finished.as_document()]
    number, step, hits = 1, 17 if way == "fit" else 3, [0, 0]
    if n_places:
        learner = copy.copy(start)
        step = max(step, run_until(None, lambda: learn(learner)) // n_places)
    while True:
        learner = copy.copy(start)
        if run_until(number, lambda learner=learner: learn(learner)) < number:
            break
        hits[outcomes.index(learner.as_document())] += 1
        number += step
    assert hits[0] > 3


@pytest.fixture
def alarm():
    """A function that has an interrupt sent in so many seconds, if `alarm.armed` is true then."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("this system has no interval timer")

    def interrupt(*_):
        if send.armed:
            raise KeyboardInterrupt

    def send(seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)

    send.armed = True
    before = signal.signal(signal.SIGALRM, interrupt)
    yield send
    send.armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("n", [300, pytest.param(6000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("way", ["learn_one", "learn"])
def test_signals_leave_the_learner_as_it_was(way, n, stream, alarm):
    """An interrupted call has learned nothing, so that whoever calls again learns each query once."""
    learn, rng, hits = ways_to_learn(stream)[way], np.random.default_rng(n), 0
    learners = [pr.ListwisePerceptron(), pr.SlamPerceptron(transforms="running"), pr.AdaGrad(pr.OnlineListNet())]
    alarm.armed = False
    for learner in learners:
        learner.learn(stream[:20])
        learn(learner)
    number = 0
    while number < n or hits <= n / 20:  # where in a call a signal strikes is up to the machine
        number += 1
        assert number < 100 * n
        learner = learners[number % len(learners)]
        before, queries = learner.as_document(), learner.n_queries
        alarm(rng.uniform(1e-6, 6e-5))
        try:
            alarm.armed = True
            learn(learner)
            alarm.armed = False
        except KeyboardInterrupt:
            alarm.armed = False
            hits += 1
            assert learner.n_queries == queries
            assert learner.as_document() == before
    for learner in learners:
        free = threading.Thread(target=learn, args=(learner,), daemon=True)
        free.start()
        free.join(30)
        assert not free.is_alive()  # no interrupt has left the lock behind


def test_an_interrupt_while_waiting_for_another_thread_changes_nothing(stream, alarm):
    learner = pr.ListwisePerceptron()
    learner.learn(stream[:20])
    holding, release = threading.Event(), threading.Event()

    def hold():
        with learner._lock:
            holding.set()
            release.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    holding.wait(30)
    before = learner.as_document()
    alarm(0.05)
    with pytest.raises(KeyboardInterrupt):
        learner.learn_one(np.eye(4), [0, 1, 2, 3])
    release.set()
    other.join()
    assert learner.as_document() == before
    assert learner.learn_one(np.eye(4), [0, 1, 2, 3])


@every_implementation
def test_an_error_after_learning_changes_nothing(make, stream, monkeypatch):
    learner = make()
    learner.learn(stream)
    before = bits(learner)
    calls = []

    def fail(*_):
        calls.append(1)
        raise OSError("no space left on device")

    monkeypatch.setattr(pr.AP, "per_query", fail)
    with pytest.raises(OSError, match="no space"):
        learner.learn(stream, "ap")
    assert calls
    assert bits(learner) == before
