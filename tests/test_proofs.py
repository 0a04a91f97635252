"""The machine-checked proofs: what is declared there, and that their check refuses what is not proved.

`make proofs` runs Coq over all of them.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "proofs"
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.v"))}
UNPROVED = r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjecture|Abort|bypass_check|Unset)\b"


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_is_left_unproved(name):
    assert re.findall(UNPROVED, SOURCES[name]) == []


def test_the_readme_names_every_theorem_beside_its_file():
    rows = re.findall(
        r"^\| \[(\w+\.v)\]\(\1\) \|(.*)$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = {name: set(re.findall(r"`(\w+)`", row)) for name, row in rows}
    declared = {name: set(re.findall(r"^Theorem (\w+)", text, re.MULTILINE)) for name, text in SOURCES.items()}
    assert named == declared
    assert sum(map(len, declared.values())) >= 26


REAL = "Require Import Reals.\nOpen Scope R_scope.\n"


@pytest.mark.engine
@pytest.mark.skipif(shutil.which("coqchk") is None, reason="Coq is not installed")
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (REAL + "Theorem t : 0 < 1.\nProof. exact Rlt_0_1. Qed.\n", "1 theorems, which assume nothing but"),
        ("Theorem t : 0 = 0.\nProof. reflexivity. Qed.\n", "1 theorems, which assume nothing but"),
        (REAL + "Axiom easy : 0 < 1.\nTheorem t : 0 < 1.\nProof. exact easy. Qed.\n", "t must rest on the axioms"),
        (REAL + "Theorem t : 1 < 0.\nProof. Admitted.\n", "t must rest on the axioms"),
        (
            "Unset Guard Checking.\nFixpoint f (n : nat) : False := f n.\n"
            "Theorem t : False.\nProof. exact (f 0). Qed.\n",
            "t must rest on the axioms",
        ),
        (REAL + "Theorem t : 1 < 0.\nProof. exact Rlt_0_1. Qed.\n", "coqc -Q . Perceptrank One.v failed"),
    ],
)
def test_what_the_check_lets_pass(source, said, tmp_path):
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "One.v").write_text(source)
    command = [sys.executable, FOLDER / "check.py", "--sources", tmp_path / "sources", "--build", tmp_path / "build"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert said in done.stdout + done.stderr
    assert (done.returncode == 0) == ("theorems" in said)


def test_without_coq_it_says_so(tmp_path):
    done = subprocess.run(
        [sys.executable, FOLDER / "check.py"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("no coqc, coqchk, coqdep: the proofs are not checked")
