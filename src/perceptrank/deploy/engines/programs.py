"""Running the programs that engines are."""

import shutil
import subprocess


def find_program(name: str, purpose: str) -> str:
    """Return the path of a program; raise if it is not there."""
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{purpose} is run by the program {name}, which is not on the PATH: install it")
    return found


def run_program(command: list[str], *, folder: str | None = None, text: str | None = None) -> str:
    """Run a program; return what it prints, or raise with what it complains of."""
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise OSError(f"{command[0]} failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
