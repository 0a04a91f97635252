"""Names of files as text that terminals, HTML and XML can hold."""

import re

_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    r"""Replace control characters other than tabs and line feeds, and bytes of a file name that are not UTF-8.

    >>> printable("a\x1b[1mb\udcffc"), printable("naïve – 検索")
    ('a�[1mb�c', 'naïve – 検索')
    """
    return _NOT_TEXT.sub("\ufffd", text)
