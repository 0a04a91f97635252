"""The rounds that the page opens with, against a slow learner, and as they are drawn and told."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from support import twins

import perceptrank as pr
from perceptrank.paper.report.page import opening
from perceptrank.paper.report.plane_figure import Plane
from perceptrank.paper.report.walkthrough_figure import describe, ranking_drawing, turn_angle
from perceptrank.paper.walkthrough import N_DOCUMENTS, N_GRADES, N_ROUNDS, Round, walk_through, wrong_pairs

SEEDS = [0, 3, 7, 14]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=SEEDS)
def walk(request):
    return walk_through(request.param)


def test_numbers_are_those_of_a_slow_learner(walk):
    weights, lost = np.zeros(2), 0.0
    for one, so_far in zip(walk.rounds, walk.losses, strict=True):
        assert one.before == pytest.approx(weights)
        scores = one.X @ weights
        v = twins.slam_weights(scores, one.grades)
        coefficients, active = twins.places(scores, one.grades, v, 0.0)
        assert one.moves == pytest.approx(-coefficients)
        assert {i for i, _ in one.mistakes} == set(active)
        weights = weights - coefficients @ one.X
        assert one.after == pytest.approx(weights)
        assert one.ndcg == pytest.approx(twins.measure("ndcg", scores, one.grades))
        assert one.ndcg_again == pytest.approx(twins.measure("ndcg", one.X @ weights, one.grades))
        lost += 1 - one.ndcg
        assert so_far == pytest.approx(lost)


def test_the_weights_are_those_of_the_learner_fed_with_the_whole_stream(walk):
    learner = pr.ListwisePerceptron(relative_margin=0, average=False, transforms=None)
    stream = pr.QueryStream.from_arrays(
        np.concatenate([one.X for one in walk.rounds]),
        np.concatenate([one.grades for one in walk.rounds]),
        group=[N_DOCUMENTS] * N_ROUNDS,
    )
    trace = learner.learn(stream, "ndcg")
    assert np.array_equal(learner.coef_, walk.rounds[-1].after)
    assert trace.values("ndcg").tolist() == [one.ndcg for one in walk.rounds]


def test_the_comparator_ranks_every_round_with_its_margin(walk):
    assert np.linalg.norm(walk.ranker) == pytest.approx(1)
    for one in walk.rounds:
        heights = one.X @ walk.ranker
        gaps = [heights[i] - heights[j] for i, j in twins.pairs_of(one.grades)]
        assert min(gaps) >= walk.margin - 1e-12
        assert len(gaps) > 0


def test_what_is_learned_from_mistakes_alone(walk):
    assert len(walk.rounds) == N_ROUNDS
    assert walk.rounds[0].mistakes
    assert {bool(one.mistakes) for one in walk.rounds} == {True, False}
    for one in walk.rounds:
        assert bool(one.mistakes) == bool(one.step.any()) == (one.ndcg < 1)
        assert one.moves.sum() == pytest.approx(0)


def test_a_round_by_hand():
    one = Round(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.0, 1.0]), np.array([2.0, 1.0]), np.array([1.0, 2.0]))
    assert (one.ranked.tolist(), one.ranked_again.tolist()) == ([0, 1], [1, 0])
    assert one.mistakes == [(1, 0)]
    assert (one.ndcg, one.ndcg_again) == (pytest.approx(1 / np.log2(3)), 1)
    assert one.moves == pytest.approx([-1, 1])
    assert turn_angle(one) == pytest.approx(np.degrees(np.arctan2(3, 4)))
    told = describe(one)
    assert told == (
        "B stands below a document of lower grade: 1 wrong pair. The update raises B and lowers A. The weights turn by "
        "37°. Ranked again, the query is in order."
    )


def test_rounds_are_told_as_they_are(walk):
    for k, one in enumerate(walk.rounds):
        told = describe(one)
        assert ("all documents are tied" in told) == (k == 0)
        if not one.mistakes:
            assert told.startswith("Nothing is wrong")
            continue
        assert f"{len(one.mistakes)} wrong pair" in told
        left = len(wrong_pairs(one.ranked_again, one.grades))
        assert ("the query is in order" in told) == (left == 0) == (one.ndcg_again == 1)


def test_no_score_is_a_negative_zero():
    one = Round(
        np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.0, 1.0]), np.array([-0.04, 1.0]), np.array([-0.04, 1.0])
    )
    assert "−0.0<" not in ranking_drawing(one, 1.0)
    assert ">0.0<" in ranking_drawing(one, 1.0)


def test_cards_stand_in_the_order_of_the_scores_and_mark_what_is_outranked(walk):
    for one in walk.rounds:
        drawn = ElementTree.fromstring(
            ranking_drawing(one, 1.0).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
        )
        letters = [text for text in drawn.iter(f"{SVG}text") if text.get("class") == "letter"]
        columns = sorted({float(text.get("x")) for text in letters})
        for x, ranking in zip(columns, (one.ranked, one.ranked_again), strict=True):
            column = sorted((float(text.get("y")), text.text) for text in letters if float(text.get("x")) == x)
            assert [name for _, name in column] == [chr(ord("A") + i) for i in ranking]
        cards = [rect for rect in drawn.iter(f"{SVG}rect") if "card" in rect.get("class")]
        left = min(float(rect.get("x")) for rect in cards)
        marked = [rect for rect in cards if "wrong" in rect.get("class") and float(rect.get("x")) == left]
        assert len(marked) == len({i for i, _ in one.mistakes})
        assert len([path for path in drawn.iter(f"{SVG}path") if path.get("class") == "arc"]) == len(one.mistakes)
        numbers = [text.text for text in drawn.iter(f"{SVG}text") if re.fullmatch(r"on\d", text.get("class"))]
        assert sorted(numbers) == sorted(2 * [f"{grade:g}" for grade in one.grades])


def test_points_are_nearer_to_the_top_the_better_the_comparator_ranks_them(walk):
    plane = Plane(walk)
    for k, one in enumerate(walk.rounds):
        drawn = ElementTree.fromstring(plane.picture(k).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '))
        points = [circle for circle in drawn.iter(f"{SVG}circle") if "document" in circle.get("class")]
        heights = [-float(circle.get("cy")) for circle in points]
        assert np.corrcoef(heights, one.X @ walk.ranker)[0, 1] == pytest.approx(1, abs=1e-4)
        _, _, width, height = map(float, drawn.get("viewBox").split())
        for circle in points:
            assert 0 < float(circle.get("cx")) < width
            assert 0 < float(circle.get("cy")) < height
        strips = [
            (float(rect.get("y")), float(rect.get("y")) + float(rect.get("height")))
            for rect in drawn.iter(f"{SVG}rect")
            if rect.get("class") == "strip"
        ]
        assert len(strips) == N_GRADES - 1
        for circle in drawn.iter(f"{SVG}circle"):
            if "origin" not in circle.get("class"):
                assert not any(top + 0.1 < float(circle.get("cy")) < bottom - 0.1 for top, bottom in strips)


def test_without_a_script_some_rounds_are_shown(walk):
    html = opening(walk)
    assert re.findall(r'class="round still" data-round="(\d+)"', html) == [str(k + 1) for k in walk.stills]
    assert len(re.findall(r'class="round(?: still)?"', html)) == N_ROUNDS
    assert 1 < len(walk.stills) <= 3
    assert walk.opening in walk.stills
    assert '<div class="steps" hidden>' in html


@pytest.mark.parametrize("seed", range(20))
def test_every_seed_can_be_drawn(seed):
    walk = walk_through(seed)
    assert len(walk.rounds) == N_ROUNDS
    assert "nan" not in opening(walk)
