"""The progress of the demonstration in a log."""

import time

from perceptrank.cli.reproduce import _Bars
from perceptrank.cli.terminal import tables


def test_a_log_has_a_line_for_each_part_and_one_for_each_ten_seconds(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(tables, "announce_compiling", lambda: None)
    with _Bars() as bars:
        for name in ("simulated", "MQ2008"):
            for done in range(4):
                bars(name, done, 4)
                now[0] += 6.0
    assert capsys.readouterr().err.splitlines() == [
        *("running simulated", "simulated: 50 %"),
        *("running MQ2008", "MQ2008: 50 %"),
    ]
