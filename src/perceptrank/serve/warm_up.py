"""Compiled code that is there before it is needed: ranking waits for its own, and learning for the rest."""

import gc
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial

from perceptrank.kernels.cache_folder import cache_state
from perceptrank.kernels.compiled import on_compile
from perceptrank.serve.page import progress
from perceptrank.serve.ranker import warm_up_learning, warm_up_ranking
from perceptrank.serve.replay import Current
from perceptrank.serve.service import Service

logger = logging.getLogger("perceptrank.serve")


@contextmanager
def announce_compiling() -> Iterator[None]:
    """Write a message when something has to be compiled, once."""

    @cache
    def say() -> None:
        folder, reason = cache_state().folder, cache_state().reason
        how_often = f"once, into {folder}" if folder else f"and again at the next start, as {reason}"
        text = "compiling, %s: it ranks after a few seconds, and learns after about half a minute"
        logger.info(text, how_often, extra={"fields": {"cache": None if folder is None else str(folder)}})

    stop = on_compile(lambda _: say())
    try:
        yield
    finally:
        stop()


def warm_up(current: Current, *, learning: bool = True) -> None:
    """Rank something, and learn and measure it, with a copy of a model."""
    for step in (warm_up_ranking, warm_up_learning, progress.warm_up) if learning else (warm_up_ranking,):
        try:
            step(current)
        except Exception as error:  # whatever fails here fails again where it is reported
            logger.info("some of what %s needs is compiled later: %s", current.learner.name, error)


def start_learning(service: Service) -> None:
    """Let each ranker learn once what that needs is compiled; a message says when."""
    for name, ranker in service.rankers.items():
        ranker.thread.prepare_learning(partial(_prepare, name, ranker.current))


def _prepare(name: str, current: Current) -> None:
    start = time.perf_counter()
    warm_up(current)
    gc.freeze()  # as the server does with what there is before
    seconds = round(time.perf_counter() - start, 1)
    logger.info("%s: ready to learn after %g s", name, seconds, extra={"fields": {"ranker": name, "seconds": seconds}})
