"""Parse LETOR text into compressed sparse rows."""

from perceptrank.io.letor.codes import (
    FINE,
    HASH,
    ID_END,
    ID_START,
    LINE,
    N_BAD,
    N_PAIRS,
    N_ROWS,
    N_RUNS,
    NEWLINE,
    WIDEST,
    WIDEST_LINE,
)
from perceptrank.io.letor.pairs import is_blank
from perceptrank.io.letor.parsing import begin_pass, enter_bad, parse_head, parse_tail
from perceptrank.io.letor.sparse_pairs import Columns, parse_sparse_pairs
from perceptrank.kernels.arrays import Bytes, Features, Floats, IntRows, Ints
from perceptrank.kernels.compiled import compiled


@compiled
def parse_sparse_lines(
    values: Features,
    indices: Columns,
    ends: Ints,
    relevance: Floats,
    text: Bytes,
    start: int,
    stop: int,
    runs: IntRows,
    comments: IntRows,
    late: IntRows,
    known_at: Ints,
    known: Floats,
    bad: IntRows,
    base: int,
    limit: int,
    bound: float,
    where: int,
    found: Ints,
) -> None:
    """Parse the lines from start to stop; row i is values and indices from ends[i - 1] to ends[i].

    As `parse_lines`, with which it shares all other arguments. There is room for one value per colon of the text.
    """
    pos = start
    begin_pass(found)
    while pos < stop:
        begin = pos
        while is_blank(text[pos]):
            pos += 1
        if text[pos] != NEWLINE and text[pos] != HASH:
            row, n_pairs = found[N_ROWS], found[N_PAIRS]
            n_runs, id_start, id_end, widest = found[N_RUNS], found[ID_START], found[ID_END], found[WIDEST]
            code, end = parse_head(text, pos, relevance, row, runs, late, known_at, known, where, found)
            if code == FINE:
                code, end, n_pairs = parse_sparse_pairs(
                    text, end, values, indices, n_pairs, late, known_at, known, base, limit, bound, found
                )
            if code == FINE:
                code, end = parse_tail(text, end, row, runs, comments, where, found)
            if code == FINE:
                ends[row] = n_pairs
                found[N_PAIRS] = n_pairs
                found[N_ROWS] += 1
                if found[WIDEST] > widest:
                    found[WIDEST_LINE] = found[LINE]
            else:
                found[N_RUNS], found[ID_START], found[ID_END] = n_runs, id_start, id_end
                found[WIDEST] = widest
                enter_bad(bad, begin, end, code, found)
                if found[N_BAD] == len(bad):
                    return
                end = pos
            pos = end
        while text[pos] != NEWLINE:
            pos += 1
        pos += 1
        found[LINE] += 1
