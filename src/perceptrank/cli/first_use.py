"""The first use on a machine, which compiles: said on a terminal, and done by two processes."""

import subprocess
import sys
from threading import Thread

from perceptrank.kernels.compiled import cache_folder


def prepare() -> None:
    """If the learners are not compiled yet, say so, and have another process compile the measures.

    The measures come after the learners' pass, which takes longer to compile; when this process gets to them, it finds
    their machine code in the cache.
    """
    folder = cache_folder()
    if folder and any(folder.glob("*.list_pass.list_pass-*")):
        return
    if sys.stderr.isatty():
        print("compiling for the first use, which takes some fifteen seconds", file=sys.stderr)
    if folder is None:
        return
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", __name__]
    Thread(target=subprocess.run, args=(command,), kwargs=silent, daemon=True).start()


if __name__ == "__main__":
    from perceptrank.datasets.separable import separable
    from perceptrank.learners.perceptron import Perceptron

    stream = separable(1).stream
    Perceptron().learn(stream, ["ndcg@10", "ap"])
