"""Logs of clicks for tests: every outcome of a policy's coins once, and streams of such lists."""

from itertools import permutations, product

import numpy as np

import perceptrank as pr


def shuffles(n_queries, n_places):
    """Every order of every query's documents."""
    return [
        {"query": query, "documents": list(order), "policy": f"shuffle:{n_places}"}
        for query in range(n_queries)
        for order in permutations(range(n_places))
    ]


def fair_pairs(n_queries, n_places):
    """Every outcome of swapping neighbours, those of both starts equally often."""
    lists = []
    for query, start in product(range(n_queries), (0, 1)):
        uppers = range(start, n_places - 1, 2)
        outcomes = list(product([False, True], repeat=len(uppers)))
        for coins in outcomes * (2 ** (n_places // 2) // len(outcomes)):
            documents, swapped, paired = list(range(n_places)), [False] * n_places, [False] * n_places
            for k, is_swapped in zip(uppers, coins, strict=True):
                paired[k] = paired[k + 1] = True
                if is_swapped:
                    documents[k : k + 2] = k + 1, k
                    swapped[k] = swapped[k + 1] = True
            policy = f"fair-pairs:{start + 1}"
            lists.append(
                {"query": query, "documents": documents, "policy": policy, "swapped": swapped, "paired": paired}
            )
    return lists


def make_log(lists, clicks, propensity=None):
    """A stream of lists without features, and the clicks on them."""
    documents = [each["documents"] for each in lists]
    return pr.QueryStream.from_arrays(
        np.empty((sum(map(len, documents)), 0)),
        group=[len(each) for each in documents],
        docids=[f"d{document}" for each in documents for document in each],
        place=np.concatenate([np.arange(len(each)) + 1 for each in documents]),
        clicked=np.concatenate([np.asarray(each, float) for each in clicks]),
        propensity=None if propensity is None else np.concatenate(propensity),
        columns={
            "user_query": [f"query {each['query']}" for each in lists],
            "policy": [each.get("policy", "") for each in lists],
        },
    )
