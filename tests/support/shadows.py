"""What shadow mode should find, from the definition: one query after the other, without a service."""

import math

import perceptrank as pr
from perceptrank.evaluation.running_difference import RunningDifference
from perceptrank.serve.learning import Columns


def compare_offline(rounds, incumbent, challenger, measure="ndcg@10", *, fixed):
    """Rank each query (X, names, grades, weight) with both, then learn from it; return what the comparison finds."""
    found = RunningDifference()
    for X, names, grades, weight in rounds:
        values = []
        for model, learns in ((incumbent, not fixed), (challenger, True)):
            if learns and model.model.has_begun:
                stream = pr.QueryStream.from_arrays(
                    X, grades, group=[len(X)], feature_names=names, query_weights=[weight]
                )
                values.append(float(model.learn(stream, measure).values(measure)[0]))
            else:
                values.append(pr.parse(measure)(model.predict(Columns(X, names)), grades))
                if learns:
                    model.learn_one(Columns(X, names), grades, weight)
        if not math.isnan(values[0]):
            found = found.after(*values)
    return found
