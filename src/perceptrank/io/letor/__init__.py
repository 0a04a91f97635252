"""Read and write LETOR text, the format of SVMrank, RankLib, Terrier and the public data sets.

A line is a document: ``grade qid:ID feature:value … # comment``.
"""
