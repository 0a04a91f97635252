"""Streams that misbehave while they are read, in a module that worker processes can import."""

import os
import signal
import time


class Slow:
    """Queries that take their time, so that a test can do something meanwhile."""

    def __init__(self, stream, seconds):
        self.stream, self.seconds = stream, seconds

    def __iter__(self):
        time.sleep(self.seconds)
        yield self.stream


class Deadly:
    """Queries that kill whoever reads them, as those do that need more memory than there is."""

    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        os.kill(os.getpid(), signal.SIGKILL)
        yield self.stream
