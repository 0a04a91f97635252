"""A process that has imported everything, and forks a service whenever a line on its standard input asks for one.

So a test that kills services waits for neither imports nor compiled code.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

import perceptrank as pr
import perceptrank.serve.log.postgres  # so that forks need not
from perceptrank.serve.http.access import Access
from perceptrank.serve.http.app import make_app
from perceptrank.serve.http.server import listen, run
from perceptrank.serve.service import Service
from perceptrank.serve.settings import Limits, Settings


def serve(folder, settings, limits, models, database, shadow, port):
    """Serve a folder, and tell the port; `shadow` has weights of the model that ranks, and kinds of challengers."""
    access = Access(Path(folder))
    listening = listen("127.0.0.1", port, access)
    rankers = {name: name and make() for name, make in models.items()}
    more = {}
    if shadow is not None:
        rankers["default"] = pr.FixedRanker(shadow["weights"])
        kinds = {name: KINDS[kind]() for name, kind in shadow["challengers"].items()}
        more = {"fixed": ["default"], "challengers": {"default": kinds}}
    with Service(folder, rankers, Settings(**settings), database=database, **more) as service:
        told = {"pid": os.getpid(), "port": listening.getsockname()[1]}
        made = Limits(**limits)
        app = make_app(service, access, made)
        run(app, listening, lambda: print(json.dumps(told), flush=True), made)


KINDS = {"listwise": pr.ListwisePerceptron, "slam": pr.SlamPerceptron, "clicks": pr.ClickPerceptron}


def main():
    """Fork a service for every line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead need no care
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    for kind in KINDS.values():
        ranker = kind()
        if kind is pr.ClickPerceptron:
            ranker.learn_clicks(ranker.show(X, rng=1), [1, 0])
            ranker.show(X, rng=1)
        else:
            ranker.learn_one(X, [1, 0])
        ranker.predict(X)
        pr.NDCG(10)(ranker.predict(X), [1, 0])
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        models = {name: KINDS[kind] for name, kind in asked["models"].items()}
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = 1
            try:
                more = asked["database"], asked["shadow"], asked["port"]
                serve(asked["folder"], asked["settings"], asked["limits"], models, *more)
                status = 0
            except Exception as error:
                print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
            finally:
                os._exit(status)


if __name__ == "__main__":
    main()
