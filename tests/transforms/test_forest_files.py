"""Forests read from the files of LightGBM, XGBoost and RankLib: the same scores, and an error for everything else."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr


def documents(n=400, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).round(2)
    grades = np.clip(np.round(X[:, 0] * X[:, 1]), 0, 3)
    X[::3, 2], X[::7, 1] = 0.0, np.nan
    return X, grades


def read(tmp_path, text, **options):
    path = tmp_path / "model.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return pr.read_forest(path, **options)


def lightgbm_booster(n_trees=6, names="auto", categories="auto", **settings):
    lightgbm = pytest.importorskip("lightgbm")
    X, grades = documents()
    if categories != "auto":
        X[:, categories] = np.abs(np.round(5 * X[:, [0]]))
    fixed = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "num_leaves": 8, "min_data_in_leaf": 5}
    data = lightgbm.Dataset(X, grades, group=[20] * 20, feature_name=names, categorical_feature=categories)
    return lightgbm.train(fixed | settings, data, n_trees)


def xgboost_booster(n_trees=6, names=None, **settings):
    xgboost = pytest.importorskip("xgboost")
    X, grades = documents()
    if settings.get("objective", "").startswith(("binary", "reg:logistic")):
        grades = np.minimum(grades, 1)
    group = None if "objective" in settings else [20] * 20
    if settings.get("objective") == "reg:gamma":
        grades = grades + 0.5
    data = xgboost.DMatrix(X, grades, group=group, feature_names=names)
    fixed = {"objective": "rank:ndcg", "nthread": 1, "max_depth": 4, "verbosity": 0}
    return xgboost.train(fixed | settings, data, n_trees), data


def xgboost_text(booster):
    return bytes(booster.save_raw("json"))


def split(feature, threshold, left, right):
    def child(side, node):
        return node.replace("<split>", f'<split pos="{side}">', 1)

    inside = f"<feature> {feature} </feature><threshold> {threshold} </threshold>"
    return f"<split>{inside}{child('left', left)}{child('right', right)}</split>"


def output(value):
    return f"<split><output> {value} </output></split>"


def ranklib_text(*trees, head="## LambdaMART\n## No. of trees = 2\n\n"):
    lines = "".join(f'<tree id="{i}" weight="0.1">\n{tree}\n</tree>' for i, tree in enumerate(trees, 1))
    return f"{head}<ensemble>\n{lines}</ensemble>\n"


TWO_TREES = ranklib_text(split(2, 0.1, output(-1.0), split(1, -3.5, output(2.0), output("1e1"))), output(0.5))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"boosting": "dart"},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},  # whose raw scores are sums, too
    ],
)
def test_scores_of_lightgbm_to_the_bit(tmp_path, settings):
    booster, (X, _) = lightgbm_booster(**settings), documents(seed=1)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    forest = pr.read_forest(path)
    assert np.array_equal(forest.scores(X), booster.predict(X, raw_score=True))
    assert forest.names is None
    assert read(tmp_path, path.read_text().replace("\n", "\r\n")).as_plain() == forest.as_plain()


def test_splits_of_lightgbm_between_numbers_and_missing_values(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    X, _ = documents()
    grades = np.isnan(X[:, 1]).astype(float)  # decided by what is missing alone
    settings = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(settings, lightgbm.Dataset(X, grades, group=[20] * 20), 3)
    text = booster.model_to_string()
    assert "inf" in text.partition("threshold=")[2].partition("\n")[0]
    forest = read(tmp_path, text)
    X[:5, 1] = [-1e308, 1e308, np.finfo(np.float64).max, 0.0, np.nan]
    assert np.array_equal(forest.scores(X), booster.predict(X, raw_score=True))
    with pytest.raises(pr.FormatError, match="must be finite"):
        read(tmp_path, text.replace("threshold=inf", "threshold=nan").replace(" inf", " nan"))


def test_names_of_lightgbm_are_kept_even_those_that_its_lines_have(tmp_path):
    booster, (X, _) = lightgbm_booster(names=["num_leaves", "leaf_value", "b", "c"]), documents()
    forest = read(tmp_path, booster.model_to_string())
    assert forest.names == ("num_leaves", "leaf_value", "b", "c")
    assert np.array_equal(forest.scores(X), booster.predict(X, raw_score=True))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_depth": 0, "max_leaves": 9, "grow_policy": "lossguide"},
        {"gamma": 0.3, "tree_method": "exact", "max_depth": 6},  # prunes nodes
        {"num_parallel_tree": 3, "subsample": 0.5},
        *({"objective": f"reg:{name}"} for name in ("squarederror", "logistic", "tweedie", "gamma")),
        {"objective": "binary:logistic"},
        {"objective": "binary:logitraw"},
        {"objective": "count:poisson"},
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_and_leaves_of_xgboost(tmp_path, settings, dtype):
    booster, data = xgboost_booster(**settings)
    path = tmp_path / "model.json"
    booster.save_model(path)
    forest, X = pr.read_forest(path), documents()[0].astype(dtype)
    assert np.allclose(forest.scores(X), booster.predict(data, output_margin=True), rtol=1e-5, atol=1e-5)
    theirs = booster.predict(data, pred_leaf=True).reshape(len(X), -1)
    for own, reached in zip(forest.leaves(X).T, theirs.T, strict=False):
        assert len(set(zip(own, reached, strict=True))) == len(set(own)) == len(set(reached))
    again = pr.Forest.from_plain(json.loads(json.dumps(forest.as_plain())))
    assert np.array_equal(again.scores(X), forest.scores(X))


def test_a_value_at_the_threshold_of_xgboost_goes_right(tmp_path):
    booster, _ = xgboost_booster()
    forest = read(tmp_path, xgboost_text(booster))
    trees = json.loads(xgboost_text(booster))["learner"]["gradient_booster"]["model"]["trees"]
    thresholds = [np.float32(t["split_conditions"][0]) for t in trees if t["left_children"][0] >= 0]
    X = np.tile(np.array(thresholds, np.float64)[:, None], 4)
    data = pytest.importorskip("xgboost").DMatrix(X)
    assert np.allclose(forest.scores(X), booster.predict(data, output_margin=True), atol=1e-5)


def test_names_of_xgboost_are_kept(tmp_path):
    assert read(tmp_path, xgboost_text(xgboost_booster(names=list("abcd"))[0])).names == tuple("abcd")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"booster": "dart"}, "booster='gbtree', got 'dart'"),
        ({"booster": "gblinear"}, "booster='gbtree', got 'gblinear'"),
        ({"objective": "multi:softmax", "num_class": 4}, "one score per document"),
    ],
)
def test_what_a_forest_cannot_be_is_refused(tmp_path, settings, said):
    booster, _ = xgboost_booster(**settings)
    with pytest.raises(pr.FormatError, match=said):
        read(tmp_path, xgboost_text(booster))


def test_categories_are_refused(tmp_path):
    text = lightgbm_booster(categories=[2], min_data_per_group=1, cat_smooth=0).model_to_string()
    with pytest.raises(pr.FormatError, match="encode categories as numbers"):
        read(tmp_path, text)


def test_categories_of_xgboost_are_refused(tmp_path):
    document = json.loads(xgboost_text(xgboost_booster()[0]))
    document["learner"]["gradient_booster"]["model"]["trees"][2]["split_type"][0] = 1
    with pytest.raises(pr.FormatError, match=r"tree 2 .* encode categories as numbers"):
        read(tmp_path, json.dumps(document))


def test_linear_leaves_are_refused(tmp_path):
    with pytest.raises(pr.FormatError, match="linear_tree=false"):
        read(tmp_path, lightgbm_booster(linear_tree=True).model_to_string())


def test_ubjson_says_what_to_do(tmp_path):
    with pytest.raises(pr.FormatError, match="save it as JSON"):
        read(tmp_path, bytes(xgboost_booster()[0].save_raw("ubj")))


def test_ranklib_by_hand(tmp_path):
    forest = read(tmp_path, TWO_TREES, n_features=3)
    edge = float(np.float32(0.1))
    X = np.array([[0.0, 0.1, 9.0], [-3.5, np.nextafter(np.float32(edge), np.float32(1)), 0], [0, 7, 0], [0, np.nan, 0]])
    tenth = float(np.float32(0.1))
    assert forest.scores(X).tolist() == [tenth * value + tenth * 0.5 for value in (-1.0, 2.0, 10.0, -1.0)]
    assert read(tmp_path, TWO_TREES).n_features == 2
    assert read(tmp_path, ranklib_text(output(1.0), head="")).scores(np.zeros((1, 1))).tolist() == [tenth]


def test_ranklib_as_exported_ranks_as_the_model(tmp_path):
    stream = pr.mslr_shaped(60, n_features=5, seed=3)
    ranker = pr.ListwisePerceptron(transforms=["bins:kind=one-hot"])
    ranker.learn(stream)
    path = tmp_path / "model.txt"
    path.write_text(pr.deploy.export(ranker, "ranklib").text)
    forest = pr.read_forest(path, n_features=stream.n_features)
    scores, exported = ranker.scores(stream), forest.scores(stream.X)
    assert np.ptp(scores - exported) < 1e-5 * max(1.0, np.abs(scores).max())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be text of LightGBM or RankLib"),
        (b"\xff\xfe", "can't decode"),
        ("tree\nversion=v4", "have trees"),
        ("tree\nmax_feature_idx=999999999999\nfeature_names=a\n\nTree=0\nnum_leaves=1\nleaf_value=1", "10,000,000"),
        ("tree\nmax_feature_idx=0\nfeature_names=a\n\nTree=0\nnum_leaves=1", "lacks the line 'leaf_value'"),
        (
            "tree\nmax_feature_idx=0\nfeature_names=a\ntree_sizes=1 2\n\nTree=0\nnum_leaves=1\nleaf_value=1",
            "tree_sizes",
        ),
        ("tree\n\nTree=0\nnum_leaves=1\nleaf_value=1", "the line feature_names="),
        ("tree\nmax_feature_idx=1\nfeature_names=a\n\nTree=0\nnum_leaves=1\nleaf_value=1", "2 different names, got 1"),
        ('{"name": "tree"}', "got no 'learner'"),
        ('{"a":' * 100_000, "recursion"),
        ('{"learner": {}}', "'gradient_booster' is lacking"),
        ('{"learner": []}', "is not a forest"),
        (TWO_TREES.replace("LambdaMART", "Random Forests"), "got 'Random Forests'"),
        (TWO_TREES.replace("<ensemble>", "<!DOCTYPE a [<!ENTITY b 'c'>]><ensemble>"), "no declarations"),
        (TWO_TREES.replace('pos="left"', ""), "tree 0 is damaged: lacks the split 'left'"),
        (TWO_TREES.replace("-3.5", "1e39"), "must be finite"),
        (TWO_TREES.replace("<feature> 2", "<feature> 0"), "columns from 0"),
        (TWO_TREES.replace("<feature> 2", "<feature> 2000000000"), "10,000,000 features"),
        (TWO_TREES.replace("</ensemble>", ""), "must be trees in XML"),
        ("## MART\n<ensemble></ensemble>", "must have trees, got none"),
    ],
)
def test_damaged_files_say_what_is_wrong(tmp_path, text, said):
    with pytest.raises(pr.FormatError, match=said):
        read(tmp_path, text)


def test_a_file_of_lightgbm_that_was_cut_off_has_the_same_trees_or_is_refused(tmp_path):
    text = lightgbm_booster(1, num_leaves=3).model_to_string()
    whole = read(tmp_path, text)
    for end in range(text.index("leaf_value="), len(text), 3):
        try:
            forest = read(tmp_path, text[:end])
        except pr.FormatError:
            continue
        assert np.array_equal(forest.values, whole.values)
    start = text.index("leaf_weight=")
    for end in range(start - 12, start):
        with pytest.raises(pr.FormatError, match="tree 0 is damaged"):
            read(tmp_path, text[:end])


def test_the_number_of_features_must_fit(tmp_path):
    with pytest.raises(pr.FormatError, match="columns from 0 to 0"):
        read(tmp_path, TWO_TREES, n_features=1)
    with pytest.raises(pr.FormatError, match="number of its names, 4, got 5"):
        read(tmp_path, lightgbm_booster(1, list("abcd")).model_to_string(), n_features=5)
    with pytest.raises(ValueError, match="n_features must be"):
        read(tmp_path, TWO_TREES, n_features=0)


def test_a_loop_of_xgboost_is_refused(tmp_path):
    document = json.loads(xgboost_text(xgboost_booster(1)[0]))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    for child in (0, 1, len(tree["left_children"]), -2):
        tree["right_children"][0] = child
        with pytest.raises(pr.FormatError, match="each with one parent"):
            read(tmp_path, json.dumps(document))


def test_a_very_deep_tree_is_read_without_recursion(tmp_path):
    depth = 20_000
    inside = "<feature>1</feature><threshold>1</threshold>"
    right = '<split pos="right"><output>1</output></split>'
    levels = f'<split pos="left">{inside}{right}' * depth
    text = ranklib_text(f'{levels}<split pos="left"><output>2</output></split>{"</split>" * depth}')
    assert read(tmp_path, text).n_leaves == depth + 1


@cache
def whole_text(kind):
    if kind == "lightgbm":
        return lightgbm_booster(2).model_to_string().encode()
    return xgboost_text(xgboost_booster(2, max_depth=2)[0]) if kind == "xgboost" else TWO_TREES.encode()


WORDS = [
    b"",
    b"-1",
    b"0",
    b"1e400",
    b"nan",
    b"99999999999999999999",
    b"[]",
    b"null",
    b'"',
    b"\n",
    b"=",
    b"<",
    b"\0",
    b"}",
]
edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(WORDS) | st.binary(max_size=4)), min_size=1
)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "ranklib"])
@given(changes=edits)
def test_a_changed_file_is_a_forest_or_an_error(tmp_path_factory, kind, changes):
    content = whole_text(kind)
    for place, length, word in changes:
        start = int(place * len(content))
        content = content[:start] + word + content[start + length :]
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(content)
    try:
        forest = pr.read_forest(path)
    except pr.FormatError:
        return
    if forest.n_features < 1000:
        assert np.isfinite(forest.scores(np.zeros((2, forest.n_features)))).all()
        pr.Forest.from_plain(json.loads(json.dumps(forest.as_plain())))
