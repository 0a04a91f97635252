"""What the paper reports, to be read beside what comes out here."""

from dataclasses import dataclass

REFERENCE = 'S. Chaudhuri and A. Tewari, "Perceptron-like Algorithms for Online Learning to Rank"'


@dataclass(frozen=True)
class Quoted:
    """Two figures of the paper for one data set and measure: Algorithm 2 and ListNet, averages near the end."""

    data_set: str
    pattern: str  # what the name of such a set contains
    measure: str
    slam: float
    listnet: float
    remark: str = ""


_UNCLEAR = "the text calls Algorithm 2 “slightly worse”, so which figure is whose is unclear"

QUOTED = [
    Quoted("MSLR-WEB10K", "mslr", "ndcg@10", 0.25, 0.22),
    Quoted("MSLR-WEB10K", "mslr", "ap", 0.49, 0.37),
    Quoted("Yahoo LTRC set 1", "yahoo", "ndcg@10", 0.75, 0.74, _UNCLEAR),
    Quoted("Yahoo LTRC set 1", "yahoo", "ap", 0.875, 0.87, _UNCLEAR),
]

DIFFERENCES = [
    "The paper gives averages “over the last ten iterations” of its curves; here it is the mean over the whole stream, "
    "over several orders of the queries.",
    "It does not say how features were scaled, in which order queries came, how many passes were made, which rates "
    "were "
    "tried, how ties are broken or what a query without a relevant document counts. Here all of this stands below and "
    "with every figure: among equal scores the less relevant document comes first, and queries without a relevant "
    "document are left out.",
    "It uses the whole of MSLR-WEB10K (10,000 queries, 136 features; its “245” is a slip), Yahoo LTRC set 1 (19,944 "
    "queries, 700 features) and Yandex IMAT2009 (9,124 queries, 245 features). How many queries were used here stands "
    "with every figure.",
    "AP needs two grades: here a document is relevant if its grade is above 0, for the measure and for learning alike.",
    "Its results on Yandex are shown as curves only, which overlap.",
]
