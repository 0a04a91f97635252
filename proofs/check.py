"""Compile the proofs and check that they assume nothing but the real numbers: `make proofs`.

Coq prints the axioms behind every `Theorem` of the folder, and its separate checker goes through the compiled files.
Without Coq this says so and ends with exit code 0. What is compiled goes to `.cache/proofs`.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
LIBRARY = "Perceptrank"
# Coq's library of real numbers is built on these four.
REALS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}


def find_theorems(source: str) -> list[str]:
    """Return the names that a file declares with `Theorem`."""
    return re.findall(r"^Theorem\s+(\w+)", source, re.MULTILINE)


def run(*command: object, cwd: Path) -> str:
    """Return what a command prints; end with its output if it fails."""
    parts = [str(part) for part in command]
    done = subprocess.run(parts, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(parts)} failed, with exit status {done.returncode}")
    return done.stdout


def check_axioms(theorem: str, printed: str) -> None:
    """End with an error if a theorem rests on more than the reals."""
    if printed.startswith("Closed under the global context"):
        return
    # Axioms, and whatever else Coq was told to believe, start a line; their types go on below, indented.
    heads = {line.split()[0] for line in printed.splitlines() if line[:1].strip()}
    if not printed.startswith("Axioms:\n") or heads - REALS - {"Axioms:"}:
        sys.exit(f"{theorem} must rest on the axioms of the real numbers alone, but Coq prints\n{printed}")


def main() -> None:
    """Compile, print and check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources", type=Path, default=FOLDER, help="folder of the .v files")
    parser.add_argument("--build", type=Path, default=FOLDER.parent / ".cache" / "proofs", help="where to compile them")
    options = parser.parse_args()
    missing = [tool for tool in ("coqc", "coqchk", "coqdep") if shutil.which(tool) is None]
    if missing:
        print(f"no {', '.join(missing)}: the proofs are not checked (on Debian and Ubuntu: apt-get install coq)")
        return
    shutil.rmtree(options.build, ignore_errors=True)
    options.build.mkdir(parents=True)
    sources = {path.name: path.read_text(encoding="utf-8") for path in sorted(options.sources.glob("*.v"))}
    for name, text in sources.items():
        (options.build / name).write_text(text, encoding="utf-8")
    here = ("-Q", ".", LIBRARY)
    count = 0
    for name in run("coqdep", *here, "-sort", *sources, cwd=options.build).split():
        run("coqc", *here, name, cwd=options.build)
        theorems, module = find_theorems(sources[name]), Path(name).stem
        for theorem in theorems:
            question = options.build / f"axioms_of_{theorem}.v"
            question.write_text(f"From {LIBRARY} Require {module}.\nPrint Assumptions {module}.{theorem}.\n")
            check_axioms(theorem, run("coqc", *here, question.name, cwd=options.build))
        count += len(theorems)
        print(f"{name:18} {', '.join(theorems) or 'lemmas only'}", flush=True)
    modules = (f"{LIBRARY}.{Path(name).stem}" for name in sources)
    run("coqchk", *here, "-silent", *(part for module in modules for part in ("-norec", module)), cwd=options.build)
    print(f"{count} theorems, which assume nothing but Coq's real numbers: {', '.join(sorted(REALS))}")


if __name__ == "__main__":
    main()
