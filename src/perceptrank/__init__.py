"""Online learning to rank: perceptron-like learners, their measures, surrogates and guarantees.

Names are loaded when first used, so that importing the package costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perceptrank.comparison import Comparison, Standing, compare
    from perceptrank.data.catalog import DataSet, datasets
    from perceptrank.data.letor import read_letor, scan_letor
    from perceptrank.data.letor_writer import write_letor
    from perceptrank.data.mslr import mslr_shaped
    from perceptrank.data.parquet import read_parquet, scan_parquet, write_parquet
    from perceptrank.data.separable import SeparableBlocks, SeparableStream, separable, separable_blocks
    from perceptrank.data.store import Store, open_store, write_store
    from perceptrank.data.text import FormatError
    from perceptrank.evaluation import evaluate
    from perceptrank.learners import algorithms, load, wrappers
    from perceptrank.learners.adagrad import AdaGrad
    from perceptrank.learners.bagging import Bagging
    from perceptrank.learners.base import Learner
    from perceptrank.learners.buffered_pairwise import BufferedPairwise
    from perceptrank.learners.category_ranking import CategoryRanking
    from perceptrank.learners.committee import CommitteePerceptron
    from perceptrank.learners.listnet import OnlineListNet
    from perceptrank.learners.listwise import ListwisePerceptron
    from perceptrank.learners.minimax import MinimaxPerceptron
    from perceptrank.learners.oap_bpm import OapBpm
    from perceptrank.learners.opauc import Opauc
    from perceptrank.learners.perceptron import Perceptron
    from perceptrank.learners.prank import PRank
    from perceptrank.learners.predtron import Predtron
    from perceptrank.learners.ranknet import RankNet
    from perceptrank.learners.slam import SlamPerceptron
    from perceptrank.learners.solar_one import SolarI
    from perceptrank.learners.solar_two import SolarII
    from perceptrank.learners.structured_ndcg import StructuredNdcg
    from perceptrank.learners.svm_map import SvmMap
    from perceptrank.learners.toppush import TopPush
    from perceptrank.learners.tournament import Tournament
    from perceptrank.learners.uneven_margins import UnevenMargins
    from perceptrank.measures import AP, ERR, NDCG, Measure, Precision, ReciprocalRank, parse, preset
    from perceptrank.scaling import QueryMinMax, QueryZScore, RunningStandardizer, Scaling
    from perceptrank.stream import Query, QueryStream, Scan
    from perceptrank.surrogates import LevelPair, ListNet, MaxPair, Slam, Surrogate
    from perceptrank.trace import Trace

__version__ = "0.1.0"

_HOME = {
    "AP": "measures",
    "AdaGrad": "learners.adagrad",
    "Bagging": "learners.bagging",
    "BufferedPairwise": "learners.buffered_pairwise",
    "CategoryRanking": "learners.category_ranking",
    "CommitteePerceptron": "learners.committee",
    "Comparison": "comparison",
    "DataSet": "data.catalog",
    "ERR": "measures",
    "FormatError": "data.text",
    "Learner": "learners.base",
    "LevelPair": "surrogates",
    "ListNet": "surrogates",
    "ListwisePerceptron": "learners.listwise",
    "MaxPair": "surrogates",
    "Measure": "measures",
    "MinimaxPerceptron": "learners.minimax",
    "NDCG": "measures",
    "OapBpm": "learners.oap_bpm",
    "OnlineListNet": "learners.listnet",
    "Opauc": "learners.opauc",
    "PRank": "learners.prank",
    "Perceptron": "learners.perceptron",
    "Precision": "measures",
    "Predtron": "learners.predtron",
    "Query": "stream",
    "QueryMinMax": "scaling",
    "QueryStream": "stream",
    "QueryZScore": "scaling",
    "RankNet": "learners.ranknet",
    "ReciprocalRank": "measures",
    "RunningStandardizer": "scaling",
    "Scaling": "scaling",
    "Scan": "stream",
    "SeparableBlocks": "data.separable",
    "SeparableStream": "data.separable",
    "Slam": "surrogates",
    "SlamPerceptron": "learners.slam",
    "SolarI": "learners.solar_one",
    "SolarII": "learners.solar_two",
    "Standing": "comparison",
    "Store": "data.store",
    "StructuredNdcg": "learners.structured_ndcg",
    "Surrogate": "surrogates",
    "SvmMap": "learners.svm_map",
    "TopPush": "learners.toppush",
    "Tournament": "learners.tournament",
    "Trace": "trace",
    "UnevenMargins": "learners.uneven_margins",
    "algorithms": "learners",
    "compare": "comparison",
    "datasets": "data.catalog",
    "evaluate": "evaluation",
    "load": "learners",
    "mslr_shaped": "data.mslr",
    "open_store": "data.store",
    "parse": "measures",
    "preset": "measures",
    "read_letor": "data.letor",
    "read_parquet": "data.parquet",
    "scan_letor": "data.letor",
    "scan_parquet": "data.parquet",
    "separable": "data.separable",
    "separable_blocks": "data.separable",
    "wrappers": "learners",
    "write_letor": "data.letor_writer",
    "write_parquet": "data.parquet",
    "write_store": "data.store",
}

__all__ = [
    "AP",
    "ERR",
    "NDCG",
    "AdaGrad",
    "Bagging",
    "BufferedPairwise",
    "CategoryRanking",
    "CommitteePerceptron",
    "Comparison",
    "DataSet",
    "FormatError",
    "Learner",
    "LevelPair",
    "ListNet",
    "ListwisePerceptron",
    "MaxPair",
    "Measure",
    "MinimaxPerceptron",
    "OapBpm",
    "OnlineListNet",
    "Opauc",
    "PRank",
    "Perceptron",
    "Precision",
    "Predtron",
    "Query",
    "QueryMinMax",
    "QueryStream",
    "QueryZScore",
    "RankNet",
    "ReciprocalRank",
    "RunningStandardizer",
    "Scaling",
    "Scan",
    "SeparableBlocks",
    "SeparableStream",
    "Slam",
    "SlamPerceptron",
    "SolarI",
    "SolarII",
    "Standing",
    "Store",
    "StructuredNdcg",
    "Surrogate",
    "SvmMap",
    "TopPush",
    "Tournament",
    "Trace",
    "UnevenMargins",
    "__version__",
    "algorithms",
    "compare",
    "datasets",
    "evaluate",
    "load",
    "mslr_shaped",
    "open_store",
    "parse",
    "preset",
    "read_letor",
    "read_parquet",
    "scan_letor",
    "scan_parquet",
    "separable",
    "separable_blocks",
    "wrappers",
    "write_letor",
    "write_parquet",
    "write_store",
]


_MODULES = [
    "comparison",
    "data",
    "evaluation",
    "learners",
    "measures",
    "scaling",
    "stream",
    "surrogates",
    "theory",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"perceptrank.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'perceptrank' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"perceptrank.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
