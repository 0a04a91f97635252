"""Train allRank's Transformer on padded queries and score others: `peers.py --allrank PYTHON` starts this.

PYTHON peers_allrank.py data.npz scores.npz, with a Python that has allRank; its release 1.4.3 needs at most Python 3.8.

Model, loss (NDCGLoss2++) and optimizer are those of its `reproducibility/configs/contextaware_web30k/ndcgloss2pp.json`.
"""

import sys
import time

import numpy as np
import torch
from allrank.config import TransformerConfig
from allrank.models.losses import lambdaLoss
from allrank.models.model import make_model

BATCH = 64


def main(source, target):
    torch.manual_seed(42)
    torch.set_num_threads(1)
    with np.load(source) as data:
        features, grades, other = (torch.from_numpy(data[name]) for name in ("features", "grades", "other"))
        padded, epochs = torch.from_numpy(data["padded"]), data["epochs"]
    start = time.perf_counter()
    model = make_model(
        {"sizes": [128], "input_norm": False, "activation": None, "dropout": 0.0},
        TransformerConfig(N=4, d_ff=512, h=4, positional_encoding=None, dropout=0.3),
        {"output_activation": None, "d_output": 1},
        n_features=features.shape[2],
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=50, gamma=0.1)
    found, seconds = [], []
    for epoch in range(1, epochs[-1] + 1):
        model.train()
        for batch in torch.randperm(len(features)).split(BATCH):
            scores = model(features[batch], grades[batch] == -1, None)
            loss = lambdaLoss(scores, grades[batch], weighing_scheme="ndcgLoss2PP_scheme", mu=10.0, sigma=1.0)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()
        if epoch in epochs:
            model.eval()
            with torch.no_grad():
                pairs = zip(other.split(BATCH), padded.split(BATCH))  # noqa: B905 (Python 3.8)
                found.append(torch.cat([model.score(*pair, None) for pair in pairs]).numpy())
            seconds.append(time.perf_counter() - start)
    np.savez(target, scores=np.stack(found), seconds=seconds)


main(*sys.argv[1:])
