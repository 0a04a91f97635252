import json

import pytest
from typer.testing import CliRunner

from perceptrank.cli import app


@pytest.fixture
def run():
    runner = CliRunner()

    def call(*arguments):
        return runner.invoke(app, list(arguments), catch_exceptions=False)

    return call


def test_demo_prints_a_table(run):
    result = run("demo", "--queries", "50")
    assert result.exit_code == 0
    for name in ("listwise", "slam", "minimax", "listnet", "perceptron"):
        assert name in result.output


def test_demo_as_json(run):
    found = json.loads(run("demo", "--queries", "60", "--seed", "3", "--json").output)
    again = json.loads(run("demo", "--queries", "60", "--seed", "3", "--json").output)
    assert found["queries"] == 60
    assert {row["algorithm"] for row in found["learners"]} >= {"listwise", "slam"}
    for one, other in zip(found["learners"], again["learners"], strict=True):
        assert one["ndcg@10"] == other["ndcg@10"]


def test_help_has_an_example_and_wrong_input_an_error(run):
    assert "Example: perceptrank demo" in run("demo", "--help").output
    assert run("demo", "--queries", "0").exit_code == 2
