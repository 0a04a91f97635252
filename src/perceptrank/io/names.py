"""Names of files as text that terminals, HTML and XML can hold."""

import re

_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    r"""Replace control characters other than tabs and line feeds, and bytes of a file name that are not UTF-8.

    Examples
    --------
    >>> printable("a\x1b[1mb\udcffc"), printable("naïve – 検索")
    ('a�[1mb�c', 'naïve – 検索')
    """
    return _NOT_TEXT.sub("\ufffd", text)


def one_line(text: str) -> str:
    r"""Make text printable on one line, whatever names it contains.

    Examples
    --------
    >>> print(one_line("no file a\nb"))
    no file a\nb
    """
    return printable(text).replace("\n", r"\n")
