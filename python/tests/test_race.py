"""Threads that want the same capsule at the same moment: one gets it, the others are told."""
import os
import sys
import sysconfig

import pytest
import tenon_probe as probe
import tenon_race

ROUNDS = int(os.environ.get("TENON_RACES", "100000"))
BATCH = 10_000


@pytest.mark.parametrize("kind", [probe.CAPSULE, probe.CAPSULE_LEGACY], ids=["versioned", "legacy"])
@pytest.mark.parametrize("threads", [2, 8])
def test_one_winner_each_time(kind, threads):
    before, released = probe.stats(), probe.released()
    rounds = ROUNDS // 2 if threads == 2 else ROUNDS // 20
    for start in range(0, rounds, BATCH):
        count = min(BATCH, rounds - start)
        handle = probe.new("f32", (4,))
        objects = [tenon_race.Same(probe.export(handle, kind)) for _ in range(count)]
        del handle
        wins, lost, wrong = tenon_race.race(objects, threads)
        assert wins == b"\1" * count
        assert (lost, wrong) == (count * (threads - 1), 0)
        assert probe.stats()[:4] == before[:4]  # each deleter has run, and the last let the memory go
        del objects
    assert probe.released() == released + -(-rounds // BATCH)
    assert probe.stats() == before


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has an interpreter lock")
def test_the_lock_stays_off():
    """An extension that does not say that it can do without would have switched it on."""
    assert not sys._is_gil_enabled()
