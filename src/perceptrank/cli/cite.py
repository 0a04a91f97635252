"""The command `cite`."""

from perceptrank import __version__

YEAR = 2026  # of the release

BIBTEX = f"""\
@misc{{perceptrank,
  author  = {{{{The perceptrank authors}}}},
  title   = {{{{perceptrank}}: online learning to rank with guarantees}},
  year    = {{{YEAR}}},
  version = {{{__version__}}},
  note    = {{Version {__version__}}}
}}

@article{{chaudhuri2016perceptron,
  author  = {{Chaudhuri, Sougata and Tewari, Ambuj}},
  title   = {{Perceptron like Algorithms for Online Learning to Rank}},
  journal = {{arXiv preprint arXiv:1508.00842}},
  year    = {{2016}}
}}"""


def cite() -> None:
    """Print how to cite this version and the paper whose algorithms it has, as BibTeX.

    Example: perceptrank cite >> paper.bib
    """
    print(BIBTEX)
