"""Services in processes of their own, which tests may kill."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path


class Running:
    """A service in a process."""

    def __init__(self, pid, port):
        self.pid, self.port, self.url = pid, port, f"http://127.0.0.1:{port}"
        self.has_ended = False

    def end(self, number=signal.SIGTERM, seconds=30):
        """Send a signal, and wait until the process is gone."""
        self.has_ended = True  # or will have: the process id may soon be another's
        os.kill(self.pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.002)
        raise TimeoutError(f"process {self.pid} is still there")


class Nursery:
    """Starts services, each in a fork of one process that has imported everything."""

    def __init__(self):
        script = Path(__file__).with_name("serving_nursery.py")
        self._started = []
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout.readline() == "ready\n"

    def start(self, folder, *, models=None, limits=None, database=None, shadow=None, port=0, **settings):
        """Start a service of a folder; return it once it listens."""
        asked = {"folder": str(folder), "models": models or {}, "limits": limits or {}, "settings": settings}
        asked |= {"database": database, "shadow": shadow, "port": port}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        assert "error" not in told, told["error"]
        self._started.append(Running(told["pid"], told["port"]))
        return self._started[-1]

    def close(self):
        """End the process that services are forked from, and the services that a failed test has left behind."""
        for one in self._started:
            if not one.has_ended:
                with suppress(ProcessLookupError):
                    one.end(signal.SIGKILL)
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


def send(running, method, path, body=None, headers=None):
    """Send a request as it is; return status, headers and content."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()
