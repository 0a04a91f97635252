"""The choice between dense and sparse features, and a limit for dense ones much larger than their text."""

from perceptrank.io.errors import FormatError
from perceptrank.io.letor.lines import LineParser, Widest
from perceptrank.io.text import Chunk

MOST_TIMES_TEXT = 1024
ALWAYS_ALLOWED_BYTES = 128 * 2**20
MOST_DENSE_FEATURES = 1000
LARGEST_SPARSE_SHARE = 1 / 8


def is_sparse(parser: LineParser, chunk: Chunk, width: int) -> bool:
    """Choose between sparse and dense features, by the first chunk that has documents, unless the settings say.

    Features are sparse if there are more than `MOST_DENSE_FEATURES` and less than a `LARGEST_SPARSE_SHARE` of the
    values is not zero: dense ones would take four times the memory then, and more.
    """
    if parser.settings.sparse is not None:
        return parser.settings.sparse
    if width <= MOST_DENSE_FEATURES:
        return False
    room = parser.room_for(chunk)
    n_rows = parser.parse_sparse(chunk, room).n_rows
    return n_rows > 0 and int(room.ends[n_rows - 1]) < LARGEST_SPARSE_SHARE * n_rows * width


class DensityLimit:
    """Refuses dense features that take far more memory than their text, unless their number is declared.

    A few bytes of text can name or use a feature with a large id, and every document gets a column for it.

    Parameters
    ----------
    parser : LineParser
    allowed_bytes : int
        Size that is allowed whatever the text.

    Attributes
    ----------
    widest : Widest
        The first line that has the last feature.
    """

    def __init__(self, parser: LineParser, allowed_bytes: int = 0) -> None:
        self._parser = parser
        self._allowed_bytes = max(allowed_bytes, ALWAYS_ALLOWED_BYTES)
        self.widest = Widest()

    def see(self, widest: Widest) -> None:
        """Remember the first line that has the last feature."""
        if widest.width > self.widest.width:
            self.widest = widest

    def check(self, n_documents: int, width: int, n_text_bytes: int) -> None:
        """Raise `FormatError` if `n_documents` of `width` features are too large for their text."""
        settings = self._parser.settings
        n_bytes = n_documents * width * settings.dtype.itemsize
        if settings.n_features is not None or n_bytes <= max(self._allowed_bytes, MOST_TIMES_TEXT * n_text_bytes):
            return
        width, file, line = max(self.widest, self._parser.last_named, key=lambda one: one.width)
        megabytes = width * settings.dtype.itemsize / 1e6
        row = f"because of feature {width - 1 + settings.base} a document takes {megabytes:.3g} MB"
        problem = f"{row}, all more than {MOST_TIMES_TEXT} times their text; if there are so many features, use "
        advice = f"`n_features={width}` or `sparse=True`"
        raise FormatError(self._parser.files[file], line, 1, problem + advice)
