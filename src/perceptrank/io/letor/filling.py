"""Fill a matrix with parsed text, several chunks at a time."""

from collections import deque
from collections.abc import Callable, Iterable

from perceptrank.io.errors import FormatError
from perceptrank.io.letor.density import DensityLimit
from perceptrank.io.letor.error_policy import ErrorPolicy
from perceptrank.io.letor.jobs import MOST_PENDING_BYTES, Job, Pool
from perceptrank.io.letor.lines import LineParser, Parsed, Widest
from perceptrank.io.letor.matrix import Matrix
from perceptrank.io.letor.runs import Runs
from perceptrank.io.text import Chunk, TextReader
from perceptrank.kernels.arrays import Features, Floats

_UNKNOWN_SHARE = 1.5  # growth of the matrix while the size of the text is unknown
_SPARE = 1.03


class Filler:
    """Parses chunks into one matrix that grows in length and width; results are collected in the order of the text.

    Chunks are split so that the rows taken for a part have a moderate size. When a part turns out to be wider than the
    matrix, that is widened, and whatever is pending is split and parsed again. `widest` is what is known of the first.
    """

    def __init__(self, pool: Pool, parser: LineParser, policy: ErrorPolicy, reader: TextReader, widest: Widest) -> None:
        self._matrix, self.runs = Matrix(parser.settings.dtype), Runs()
        self._pool, self._parser, self._policy, self._reader = pool, parser, policy, reader
        self._density = DensityLimit(parser)
        self._density.see(widest)
        self._todo: deque[Chunk] = deque()
        self._jobs: deque[Job] = deque()
        self._n_text_bytes = self._n_pending_bytes = 0
        self._has_gap = False

    @property
    def width(self) -> int:
        """Number of features: those declared or named, or the largest id found."""
        return max(1, self._parser.min_width, self._density.widest.width)

    @property
    def n_filled(self) -> int:
        """Number of documents."""
        return self._matrix.n_filled

    def fill(self, chunks: Iterable[Chunk], report: Callable[[], object]) -> None:
        """Parse and collect chunks; call `report` after each.

        An error of the chunks is raised after those of earlier lines.
        """
        failure: FormatError | None = None
        source = iter(chunks)
        while True:
            try:
                chunk = next(source)
            except StopIteration:
                break
            except FormatError as error:
                failure = error
                break
            self._todo.append(chunk)
            while self._todo:
                self._submit()
            report()
        while self._jobs or self._todo:
            self._finish_all()
            while self._todo:
                self._submit()
        self._density.check(self._matrix.n_filled, self.width, self._n_text_bytes)  # headers may name more features
        if failure is not None:
            raise failure

    def finish(self, width: int) -> tuple[Features, Floats]:
        """Return the documents, with `width` features, and their grades."""
        return self._matrix.finish(width)

    def _submit(self) -> None:
        """Have the first part of what is to do parsed, or make room for it."""
        matrix = self._matrix
        if matrix.width == 0 and not self._jobs:
            if not (self._parser.min_width or self._density.widest.width):
                self._density.see(self._parser.widest(self._todo[0]))
            matrix.widen(self._parser.min_width or self._density.widest.width)
        part, rest = self._todo[0].split(matrix.documents_per_part)
        if self._has_gap or not matrix.has_room(part.n_documents):
            if self._jobs:
                self._finish_all()
                return  # there may be other things to do first
            matrix.rewind()
            self._has_gap = False
            if not matrix.has_room(part.n_documents):
                n_read, n_bytes = self._reader.n_read, self._reader.n_bytes
                matrix.make_room(part.n_documents, _SPARE * n_bytes / n_read if n_bytes else _UNKNOWN_SHARE)
        self._todo.popleft()
        if rest is not None:
            self._todo.appendleft(rest)
        first = matrix.take(part.n_documents)
        self._jobs.append(Job(part, first, self._pool.submit(self._parse, part, first)))
        self._n_pending_bytes += part.n_bytes
        while self._jobs and (len(self._jobs) > self._pool.depth or self._n_pending_bytes > MOST_PENDING_BYTES):
            self._finish_oldest()

    def _parse(self, chunk: Chunk, first: int) -> Parsed:
        return self._parser.parse(chunk, *self._matrix.arrays(), first)

    def _finish_all(self) -> None:
        while self._jobs:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        """Collect the oldest part; if it is too wide for the matrix, widen that and do all pending parts again."""
        chunk, first, future = self._jobs[0]
        parsed = future.result()
        if parsed.widest.width > self._matrix.width:
            self._widen(parsed.widest, chunk.n_bytes)
            return
        self._jobs.popleft()
        self._n_pending_bytes -= chunk.n_bytes
        self._n_text_bytes += chunk.n_bytes
        self._policy.add(self._parser.problems(chunk, parsed), len(parsed.bad))
        self._density.see(parsed.widest)
        self.runs.add(parsed, self._matrix.n_filled)
        self._has_gap |= self._matrix.fill(first, parsed.n_rows)
        self._density.check(self._matrix.n_filled, self._matrix.width, self._n_text_bytes)
        self._reader.release(chunk)

    def _widen(self, widest: Widest, n_text_bytes: int) -> None:
        for job in self._jobs:
            job.parsed.result()  # no thread may write
        self._density.see(widest)
        self._density.check(self._matrix.n_filled + 1, self.width, self._n_text_bytes + n_text_bytes)
        self._todo.extendleft(job.chunk for job in reversed(self._jobs))
        self._jobs.clear()
        self._n_pending_bytes = 0
        self._matrix.widen(widest.width)
