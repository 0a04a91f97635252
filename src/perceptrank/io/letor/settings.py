"""The settings that say what a line of LETOR text means."""

import numpy as np
import numpy.typing as npt

from perceptrank.io.letor import codes
from perceptrank.stream.validation import ParameterError, check_choice, check_positive, check_positive_whole

LARGEST, LARGEST_UNDECLARED, LARGEST_SPARSE = 10**8 - 1, 2**20, 2**31 - 1
GROUP = object()  # as `qid`: lines do not name their queries


class LineSettings:
    """Those parameters of `read_letor` and `scan_letor` that concern a line, checked.

    `skip` is True if invalid lines are left out. `limit` is the number of features that lines may have, `where` the
    location of query ids, None if it is to be detected. `sparse` is None if the first documents decide.
    """

    def __init__(
        self,
        n_features: int | None,
        zero_based: bool,
        qid: object,
        comments: bool,
        dtype: npt.DTypeLike,
        clip: float | None,
        skip: bool,
        sparse: bool | None = False,
    ) -> None:
        if qid != GROUP:
            check_choice("qid", qid, ("auto", "field", "comment"))
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ParameterError("dtype", "must be float32 or float64", str(self.dtype))
        self.n_features = None if n_features is None else check_positive_whole("n_features", n_features)
        if sparse not in (None, True, False):
            raise ParameterError("sparse", "must be True, False or None", sparse)
        largest = LARGEST if sparse is False else LARGEST_SPARSE
        if self.n_features is not None and self.n_features > largest:
            raise ParameterError("n_features", f"must be at most {largest}", n_features)
        self.sparse = True if (self.n_features or 0) > LARGEST else sparse
        self.limit = self.n_features or (LARGEST_SPARSE if sparse else LARGEST_UNDECLARED)
        self.base = 0 if zero_based else 1
        self.bound = np.inf if clip is None else check_positive("clip", clip)
        self.where = {"field": codes.IN_FIELD, "comment": codes.IN_COMMENT, GROUP: codes.NOWHERE}.get(qid)
        self.comments, self.skip = comments, skip
