"""`python -m perceptrank` is the command line."""

from perceptrank.cli.app import app

if __name__ == "__main__":
    app()
