from . import columns as columns
from .blocks import Scan as Scan
from .query_stream import Query as Query
from .query_stream import QueryStream as QueryStream
from .sparse import SparseFeatures as SparseFeatures
from .texts import Texts as Texts
