"""Programs that engines are, and those in Java, run by a harness: a folder with a pom.xml and a Harness.java."""

import functools
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats

DOCUMENTS, SCORES = "documents.tsv", "scores.txt"


def find_program(name: str, purpose: str) -> str:
    """Return the path of a program; raise if it is not there."""
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"{purpose} is run by the program {name}, which is not on the PATH: install it")
    return path


def run_program(command: list[str], *, folder: str | None = None, text: str | None = None) -> str:
    """Run a program; return what it prints, or raise with what it complains of."""
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise OSError(f"{command[0]} failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def folder_with(files: dict[str, str]) -> Iterator[str]:
    """Give a temporary folder with files of these names and texts."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        yield folder


def classpath(folder: str) -> str:
    """Return the class path of a harness, which Maven finds in its local repository or downloads."""
    try:
        return build_classpath(folder, offline=True)
    except OSError:
        return build_classpath(folder, offline=False)


@functools.cache
def build_classpath(folder: str, *, offline: bool) -> str:
    """Return the class path of a harness; raise if Maven does not find an artefact, offline in its local repository."""
    if not Path(folder, "pom.xml").is_file() or not Path(folder, "Harness.java").is_file():
        raise FileNotFoundError(f"harness must be a folder with a pom.xml and a Harness.java, got {folder!r}")
    maven = find_program("mvn", f"the harness {folder}")
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "classpath")
        words = ["-q", "-B", *(["--offline"] if offline else []), "-f", str(Path(folder, "pom.xml"))]
        run_program([maven, *words, f"-Dmdep.outputFile={file}", "dependency:build-classpath"])
        return file.read_text(encoding="utf-8").strip()


def version_of(folder: str, artefact: str) -> str:
    """Return the version of an artefact that a harness runs."""
    match = re.search(rf"\b{re.escape(artefact)}-(\d[\w.]*)\.jar", classpath(folder))
    if match is None:
        raise ValueError(f"harness must depend on {artefact}, which the pom.xml in {folder!r} does not")
    return match[1]


def run_harness(folder: str, files: dict[str, str], fields: list[str], columns: Any, missing: str) -> Floats:
    """Return the scores of documents, with columns of the fields, in which NaN is written as a word for missing."""
    rows = [[missing if math.isnan(value) else repr(value) for value in row] for row in columns.tolist()]
    table = "\n".join("\t".join(row) for row in [fields, *rows]) + "\n"
    java, path = find_program("java", f"the harness {folder}"), classpath(folder)
    with folder_with({**files, DOCUMENTS: table}) as place:
        options = ["-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-cp", path]
        run_program([java, *options, str(Path(folder, "Harness.java").resolve()), place])
        scores = Path(place, SCORES).read_text(encoding="utf-8").split()
    return np.array(scores, dtype=np.float64)
