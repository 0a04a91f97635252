"""Forests from the files of other libraries, none of which is needed to read them."""

from dataclasses import replace

from perceptrank.io.errors import FileFormatError
from perceptrank.io.paths import PathLike
from perceptrank.stream.validation import check_positive_whole
from perceptrank.transforms.trees.forest import Forest
from perceptrank.transforms.trees.ranklib_text import parse_ranklib
from perceptrank.transforms.trees.reading import check_n_features, parse_lightgbm
from perceptrank.transforms.trees.xgboost_json import parse_xgboost

_LARGEST = 2**30  # bytes of a file
_READERS = {"tree": parse_lightgbm, "{": parse_xgboost, "##": parse_ranklib, "<": parse_ranklib}


def read_forest(path: PathLike, n_features: int | None = None) -> Forest:
    """Read the trees that LightGBM, XGBoost or RankLib saved; which of them did is seen from the content.

    `Forest.scores` returns what `predict` does: with ``raw_score=True`` of LightGBM, ``output_margin=True`` of XGBoost.

    Parameters
    ----------
    path : path
        What LightGBM's ``Booster.save_model`` wrote; XGBoost's ``Booster.save_model("model.json")``, of `gbtree` with
        one output; or LambdaMART or MART of RankLib. Trees have splits by thresholds alone, and constant leaves.
    n_features : int, optional
        Number of columns of the data, if there are more than trees look at: RankLib does not record it.

    Raises
    ------
    FormatError
        If the file is damaged, or of another kind.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> leaves = '<split pos="left"><output>0</output></split><split pos="right"><output>2</output></split>'
    >>> tree = f'<split><feature>1</feature><threshold>0.5</threshold>{leaves}</split>'
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     print(f'<ensemble><tree weight="0.1">{tree}</tree></ensemble>', file=file, flush=True)
    ...     forest = read_forest(file.name, n_features=2)
    >>> forest.scores(np.array([[0.5, 7.0], [0.6, 7.0]])).round(6).tolist()
    [0.0, 0.2]
    """
    if n_features is not None:
        check_positive_whole("n_features", n_features)
    with open(path, "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise FileFormatError(path, f" must have at most {_LARGEST:,} bytes")
    if content[:1] == b"{" and content[1:2] in (b"L", b"l", b"I", b"i", b"U", b"$", b"#"):
        raise FileFormatError(path, " is UBJSON, which is not read: save it as JSON, by save_model('model.json')")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").lstrip()
        reader = next((reader for start, reader in _READERS.items() if text.startswith(start)), None)
        if reader is None:
            raise ValueError("it must be text of LightGBM or RankLib, or JSON of XGBoost: save_model('model.json')")
        forest = reader(text)
        if n_features in (None, forest.n_features):
            return forest
        if forest.names is not None:
            raise ValueError(f"n_features must be the number of its names, {forest.n_features}, got {n_features}")
        check_n_features(n_features)
        return replace(forest, n_features=n_features).check()
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        problem = f"{error} is lacking" if isinstance(error, KeyError) else error
        raise FileFormatError(path, f" is not a forest that can be read: {problem}") from None
