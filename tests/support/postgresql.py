"""A server of PostgreSQL in a temporary folder, which tests may stop and start."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import pytest


def server_program(name):
    """The path of a program of PostgreSQL's server, which is often not on the PATH; skip if there is none."""
    found = shutil.which(name) or next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None)
    if found is None or shutil.which("psql") is None:
        pytest.skip(f"PostgreSQL is not installed: there is no {name} or no psql")
    return str(found)


class PostgreSQL:
    """A server, run by a user who is not root; `address` is where it is, as psql takes it."""

    def __init__(self):
        initdb, self._program = server_program("initdb"), server_program("postgres")
        who = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        self.folder = Path(tempfile.mkdtemp(prefix="pr-pg-", dir="/tmp"))  # the path of a socket must be short
        if who:
            os.chown(self.folder, 65534, 65534)
        self._settings = {"cwd": self.folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}, **who}
        self._process, self._numbers = None, count(1)
        self.address = f"host={self.folder} user=tester dbname=postgres"
        data = str(self.folder / "data")
        making = [initdb, "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync"]
        try:
            made = subprocess.run(making, capture_output=True, text=True, check=False, **self._settings)
            if made.returncode:
                pytest.skip(f"PostgreSQL cannot make a cluster: {made.stderr.strip()}")
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        """Start the server, and wait until it answers."""
        command = [self._program, "-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "listen_addresses="]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._settings)
        for _ in range(200):
            asked = subprocess.run(
                ["psql", "-X", "-d", self.address, "-c", "SELECT 1"], capture_output=True, check=False
            )
            if asked.returncode == 0:
                return
            if self._process.poll() is not None:
                pytest.skip(f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-500:]}")
            time.sleep(0.1)
        pytest.skip("PostgreSQL has not started within 20 seconds")

    def stop(self, *, at_once=False):
        """Stop the server; at once, without a word to anyone and without flushing, or letting nobody finish."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
            self._process.wait(30)
            self._process = None

    def run(self, command, database="postgres"):
        """Run a statement; return what psql prints."""
        where = self.address.replace("dbname=postgres", f"dbname={database}")
        done = subprocess.run(
            ["psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", where, "-c", command],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def new_database(self):
        """Make an empty database; return its address as a URL."""
        name = f"shop{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return f"postgresql://tester@/{name}?host={self.folder}"

    def close(self):
        """Stop the server and remove everything."""
        self.stop(at_once=True)
        shutil.rmtree(self.folder)
