import pytest
from typer.testing import CliRunner

from perceptrank.cli.app import app


@pytest.fixture
def run():
    """Run a command in this process, and check its exit status."""
    runner = CliRunner()

    def call(*arguments, code=0, **settings):
        result = runner.invoke(app, [str(one) for one in arguments], **settings)
        assert result.exit_code == code, result.output
        return result

    return call
