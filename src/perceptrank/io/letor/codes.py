"""Codes and column numbers that the parsing kernels share with their caller."""

# Outcome of parsing a line; UNORDERED requests the slower parse of unsorted ids, the others are errors.
FINE, UNORDERED = range(2)
BAD_GRADE, NEGATIVE_GRADE, INFINITE_GRADE, NO_QUERY, EMPTY_QUERY, STRAY_QUERY, BAD_PAIR = range(2, 9)
ID_ZERO, ID_BEYOND, BAD_VALUE, INFINITE_VALUE, DUPLICATE, NO_COMMENT, ZERO_BYTE = range(9, 16)

# Location of the query id in a line; with NOWHERE, all lines are one query.
IN_FIELD, IN_COMMENT, NOWHERE = 0, 1, 2

# Entries of `state`, the state of a pass. WIDEST is the largest column that has a value, first on line WIDEST_LINE.
N_ROWS, N_RUNS, N_LATE, N_BAD, N_SPARSE, WIDEST, ORDERED, ID_START, ID_END, LINE, WIDEST_LINE, N_PAIRS = range(12)
N_STATE = 12

# Columns of `runs`: row and line where a query begins, and its id, as a number or as the span of its text.
RUN_ROW, RUN_LINE, RUN_ID, RUN_START, RUN_END, N_RUN_COLUMNS = range(6)

# Columns of `late`: spans of numbers that the caller has to convert.
LATE_START, LATE_END, N_LATE_COLUMNS = range(3)

# Columns of `bad`: the invalid lines, and where each begins and is invalid.
BAD_LINE, BAD_START, BAD_AT, BAD_CODE, N_BAD_COLUMNS = range(5)

NEWLINE, SPACE, HASH, COLON, MINUS, ZERO, NINE = (ord(character) for character in "\n #:-09")
