"""Kernels on disk: which folders are trusted, what is read and saved, and that no old code is run."""

import importlib
import importlib.util
import os
import pickle
import stat
import subprocess
import sys
import textwrap

import numba
import numpy as np
import pytest
from support.kernels import INNER, NOBODY, entries, finish, needs_root, run, start, write

from perceptrank.kernels import cache, cache_folder, stamps
from perceptrank.kernels.cache_folder import CacheWarning
from perceptrank.kernels.compiled import compiled, on_compile

UNKNOWN = 54321


@pytest.mark.deep
def test_kernels_outside_the_package_are_cached_by_processes_at_once(place):
    processes = [start(place, "outer(2.0)") for _ in range(2)]
    first, other = [finish(process) for process in processes]
    assert first["values"] == other["values"] == [6.0]
    assert "outer.outer" in first["compiled"] + other["compiled"]
    assert first["numba"] == ""
    assert not list((place / "cache").rglob("*.tmp.*"))
    second = run(place, "outer(2.0)")
    assert (second["values"], second["hits"], second["compiled"]) == ([6.0], {"outer": 1}, [])
    assert not first["warnings"] + second["warnings"]
    assert second["folder"] == os.path.realpath(place / "cache" / "perceptrank")
    assert not second["loaded"], "loading a kernel must not import all that compiling needs"
    assert not list(place.glob("__pycache__/*.nb?"))
    assert {stat.S_IMODE(path.stat().st_mode) & 0o022 for path in [place / "cache", *entries(place)]} == {0}


@pytest.mark.engine
def test_a_loaded_kernel_can_be_compiled_into_another(place):
    first = run(place, "outer(2.0)", "ramp(3)", "factorial(4)")
    result = run(place, "outer(2.0)", "ramp(3)", "factorial(4)", "later(1.0)")
    assert result["values"] == [6.0, [2.0, 4.0, 6.0], 24, 4.5]
    assert result["hits"] == {"outer": 1, "ramp": 1, "factorial": 1, "later": 0}
    assert result["compiled"] == ["outer.later", "outer.outer", "inner.inner"]
    assert first["started"] == result["started"] == [], "no other process is needed to compile or load"


SPECIALISED = """
    from inner import inner
    from perceptrank.kernels.compiled import compiled, specialise

    @compiled
    def double(x):
        return 2.0 * x

    def twice(x):
        return step(step(x))

    add = compiled(specialise(twice, "add", __name__, step=inner))
    multiply = compiled(specialise(twice, "multiply", __name__, step=double))
"""


@pytest.mark.engine
def test_specialised_kernels_are_cached_and_told_apart(place):
    write(place, "outer", SPECIALISED)
    calls = "add(3.0)", "multiply(3.0)"
    first, second = run(place, *calls), run(place, *calls)
    assert first["values"] == second["values"] == [5.0, 12.0]
    assert {"outer.add", "outer.multiply"} < set(first["compiled"])
    assert (second["hits"], second["compiled"]) == ({"add": 1, "multiply": 1}, [])
    write(place, "inner", INNER.replace("STEP = 1.0", "STEP = 3.0"))
    changed = run(place, *calls)
    assert (changed["values"], changed["hits"]) == ([9.0, 12.0], {"add": 0, "multiply": 1})


def test_an_edited_kernel_is_never_run_from_an_old_cache(place):
    """Not even when the edit is in a constant or a kernel of another module, which Numba does not notice."""
    run(place, "outer(2.0)")
    write(place, "inner", INNER.replace("STEP = 1.0", "STEP = 3.0"))
    changed = run(place, "outer(2.0)")
    assert (changed["values"], changed["hits"]) == ([10.0], {"outer": 0})
    assert len(entries(place)) == 1, "old entries are deleted, and what only kernels call has none"


RELOADING = """
import sys
sys.path.insert(0, sys.argv[1])
import outer
symbols = []
for step in ("1.0", "3.0"):
    text = open(sys.argv[1] + "/inner.py").read()
    open(sys.argv[1] + "/inner.py", "w").write(text.replace("STEP = 1.0", "STEP = " + step))
    del sys.modules["outer"], sys.modules["inner"]
    import outer
    print(outer.outer(2.0), len(outer.outer.stats.cache_hits))
    (result,) = outer.outer.overloads.values()
    symbols.append(result.fndesc.mangled_name)
assert symbols[0] != symbols[1], "kernels of the same name would be confused"
"""


@pytest.mark.deep
def test_a_kernel_edited_while_a_process_runs_is_told_from_the_one_loaded(place):
    run(place, "outer(2.0)")
    variables = os.environ | {"PERCEPTRANK_CACHE_DIR": str(place / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", RELOADING, str(place)]
    output = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    assert output.split() == ["6.0", "1", "10.0", "0"]


class Poison:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def poison(place):
    """Replace the cached machine code by a pickle that makes a folder when it is read."""
    payload = pickle.dumps(Poison(place / "marker"))
    for entry in entries(place):
        header = entry.read_bytes()[: cache._STAMP_END]
        entry.write_bytes(header + cache.checksum(entry, payload) + payload)


@needs_root
@pytest.mark.engine
def test_nothing_is_read_from_a_folder_that_others_can_change(place):
    run(place, "outer(2.0)")
    poison(place)
    (place / "cache").chmod(0o777)
    result = run(place, "outer(2.0)", "later(2.0)")
    assert (result["values"], result["hits"]) == ([6.0, 6.5], {"outer": 0, "later": 0})
    (warning,) = result["warnings"]
    assert "can be written by others (mode 777)" in warning
    assert "PERCEPTRANK_CACHE_DIR" in warning
    (place / "cache").chmod(0o755)
    for entry in entries(place):
        os.chown(entry, NOBODY, 0)
    (warning,) = run(place, "outer(2.0)")["warnings"]
    assert f"belongs to user {NOBODY}; delete it" in warning
    assert not (place / "marker").exists()
    poison(place)
    start(place, "outer(2.0)").communicate(timeout=300)
    assert (place / "marker").exists(), "the test must notice a poisoned file that is read"


@needs_root
@pytest.mark.engine
def test_a_cache_that_cannot_be_written_is_read(place):
    run(place, "outer(2.0)")
    for path in [*(place / "cache").rglob("*"), place / "cache"]:
        path.chmod(0o555)
    result = run(place, "outer(2.0)", "outer(2)", "later(2.0)", user=NOBODY)
    assert (result["values"], result["hits"]) == ([6.0, 6.0, 6.5], {"outer": 1, "later": 0})
    assert result["compiled"] == ["outer.outer", "inner.inner", "outer.later", "outer.outer", "inner.inner"]
    (warning,) = result["warnings"]
    assert "cannot be written (Permission denied)" in warning


@needs_root
@pytest.mark.engine
def test_without_a_home_kernels_are_compiled_in_memory(place):
    result = run(place, "outer(2.0)", "later(2.0)", user=UNKNOWN, PERCEPTRANK_CACHE_DIR=None, HOME=None)
    assert (result["values"], result["folder"]) == ([6.0, 6.5], "None")
    (warning,) = result["warnings"]
    assert "there is no home folder; set PERCEPTRANK_CACHE_DIR" in warning


@pytest.fixture
def variables(monkeypatch):
    for name in ("PERCEPTRANK_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    cache_folder._examine.cache_clear()
    yield monkeypatch
    cache_folder._examine.cache_clear()


def test_the_folder_is_chosen_by_the_most_special_variable(variables, place):
    place = place.resolve()
    variables.setenv("HOME", str(place))
    assert cache_folder.cache_state().folder == place / ".cache" / "perceptrank"
    variables.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder.cache_state().folder == place / ".cache" / "perceptrank"
    variables.setenv("XDG_CACHE_HOME", str(place / "xdg"))
    assert cache_folder.cache_state().folder == place / "xdg" / "perceptrank"
    variables.setattr(numba.config, "CACHE_DIR", str(place / "numba"))
    assert cache_folder.cache_state().folder == place / "numba" / "perceptrank"
    variables.setenv("PERCEPTRANK_CACHE_DIR", str(place / "own"))
    assert cache_folder.cache_state().folder == place / "own" / "perceptrank"
    assert not list(place.glob("[!io]*")), "choosing makes nothing"


@needs_root
@pytest.mark.parametrize(
    ("mode", "owner", "group", "trusted"),
    [
        (0o755, 0, 0, True),
        (0o1777, 0, 0, True),
        (0o775, 0, 0, True),
        (0o775, 0, 1, False),
        (0o777, 0, 0, False),
        (0o1777, NOBODY, 0, False),
        (0o755, NOBODY, 0, False),
    ],
)
def test_folders_above_are_examined(variables, place, mode, owner, group, trusted):
    """Others may write to a folder above only if it protects what is not theirs; root's own group is only root."""
    above = place / "above"
    above.mkdir()
    os.chown(above, owner, group)
    above.chmod(mode)
    variables.setenv("PERCEPTRANK_CACHE_DIR", str(above / "cache"))
    state = cache_folder.cache_state()
    assert (state.folder is not None) == trusted
    assert trusted or state.reason.startswith(f"{above.resolve()} ")


@needs_root
def test_in_the_folder_itself_nobody_else_may_add_files(variables, place):
    folder = place.resolve() / "perceptrank"
    folder.mkdir()
    folder.chmod(0o1777)
    variables.setenv("PERCEPTRANK_CACHE_DIR", str(place))
    assert cache_folder.cache_state().reason.startswith(f"{folder} can be written by others (mode 1777)")


@needs_root
def test_links_are_followed_before_a_folder_is_examined(variables, place):
    (place / "open").mkdir()
    (place / "open").chmod(0o777)
    (place / "link").symlink_to(place / "open")
    variables.setenv("PERCEPTRANK_CACHE_DIR", str(place / "link"))
    assert "can be written by others" in cache_folder.cache_state().reason


def test_folders_are_made_for_their_owner_whatever_the_umask(place):
    before = os.umask(0)
    try:
        cache_folder.make_folder(place.resolve() / "a" / "b")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((place / name).stat().st_mode) for name in ("a", "a/b")] == [0o755, 0o755]


@pytest.fixture
def load(variables, place):
    """Kernels of the modules, as a new process would have them."""
    variables.setenv("PERCEPTRANK_CACHE_DIR", str(place / "cache"))
    variables.syspath_prepend(str(place))

    def load():
        for name in ("inner", "outer"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("outer")

    yield load
    for name in ("inner", "outer"):
        sys.modules.pop(name, None)


def test_a_damaged_entry_is_compiled_again(load, place):
    assert load().outer(2.0) == 6
    (entry,) = entries(place, "outer")
    content = entry.read_bytes()
    for damaged in (content[:-100] + bytes(100), content[:1000], b"", b"other" + content):
        entry.write_bytes(damaged)
        outer = load().outer
        assert outer(2.0) == 6
        assert not outer.stats.cache_hits
        outer = load().outer
        assert outer(2.0) == 6
        assert outer.stats.cache_hits


@pytest.mark.parametrize(("part", "verb"), [("_link", "loading"), ("_symbols", "saving"), ("stamp_of", "loading")])
def test_an_error_of_the_cache_does_not_break_a_call(load, place, monkeypatch, part, verb):
    def fail(*_):
        raise AttributeError("of another Numba")

    if verb == "loading":
        load().outer(2.0)
    monkeypatch.setattr(cache, part, fail)
    monkeypatch.setattr(cache_folder, "_reasons", [])
    with pytest.warns(
        CacheWarning, match=rf"{verb} (outer|inner) failed \(AttributeError\('of another Numba'\)\)"
    ) as caught:
        assert load().outer(2.0) == 6
    assert len(caught) == 1


@pytest.mark.deep
def test_symbols_that_are_missing_are_looked_for_in_all_of_numba(load, place):
    """Else LLVM would end the process."""
    load().outer(2.0)
    (entry,) = entries(place, "outer")
    content = entry.read_bytes()
    number, symbols, *parts = pickle.loads(content[cache._HEADER_END :])
    payload = pickle.dumps((number, [*symbols, "defined_nowhere"], *parts))
    entry.write_bytes(content[: cache._STAMP_END] + cache.checksum(entry, payload) + payload)
    result = run(place, "outer(2.0)")
    assert (result["hits"], result["loaded"]) == ({"outer": 1}, True)


def test_entries_unused_for_long_are_deleted(load, place, monkeypatch):
    folder = place / "cache" / "perceptrank"
    folder.mkdir(parents=True)
    names = ["a-1-2.kernel", "b-1-2.kernel", "c-1-2.kernel.tmp.0", "d-1-2.kernel.tmp.0", "of the user"]
    for name, days in zip(names, (200, 100, 2, 0, 900), strict=True):
        (folder / name).touch()
        seconds = (folder / name).stat().st_mtime - days * 86400
        os.utime(folder / name, (seconds, seconds))
    monkeypatch.setattr(cache.KernelCache, "_has_tidied", False)
    load().outer(2.0)
    assert [name for name in names if (folder / name).exists()] == [names[1], names[3], names[4]]


def test_recompiling_deletes_the_entries_of_a_kernel(load, place):
    module = load()
    module.outer(2.0), module.factorial(4)
    module.outer._cache.flush()
    assert (len(entries(place, "outer")), len(entries(place, "factorial"))) == (0, 1)


def test_callbacks_hear_of_our_kernels_only():
    names = []
    stop = on_compile(names.append)
    assert numba.njit(lambda x: x)(1) == 1
    double = compiled(lambda x: x + x)
    assert double(1) == 2
    stop()
    assert double(1.5) == 3
    assert names == [f"{__name__}.test_callbacks_hear_of_our_kernels_only.<locals>.<lambda>"]


MODULE = """
    import enum
    import math
    from typing import NamedTuple

    import numpy as np
    import numba
    from numba import extending, types

    from perceptrank.kernels import compiled as decorators
    from perceptrank.kernels.compiled import compiled

    TABLE = np.array([1.0, 2.0])
    PAIR = (1, 2.5)

    class Rule(enum.IntEnum):
        FIRST = 1

    class Pair(NamedTuple):
        a: int
        b: int = 0

    @extending.intrinsic
    def twice(context, value):
        def generate(context, builder, signature, arguments):
            return builder.add(arguments[0], arguments[0])
        return types.int64(types.int64), generate

    @compiled
    def called(x):
        return x + 1

    @numba.njit(fastmath={"nnan", "nsz"})
    def plain(x):
        return x

    @compiled
    def kernel(x, y=1):
        if x == 0:
            return kernel(x + 1)
        pair = Pair(1, 2)
        return math.sqrt(called(x)) + TABLE[0] + PAIR[1] + Rule.FIRST + pair.a + twice(3) + plain(y)
"""


def stamp(tmp_path, text, name="stamped", kernel="kernel"):
    write(tmp_path, name, text)
    specification = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        exec(compile((tmp_path / f"{name}.py").read_text(), name, "exec"), vars(module))
        return stamps.stamp_of(getattr(module, kernel))
    finally:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x + 1\n", "x + 2\n"),
        ("[1.0, 2.0]", "[1.0, 3.0]"),
        ("(1, 2.5)", "(1, 2.25)"),
        ("FIRST = 1", "FIRST = 2"),
        ("        a: int\n        b: int = 0", "        b: int\n        a: int = 0"),
        ("b: int = 0", "b: int = 1"),
        ("builder.add", "builder.mul"),
        ("y=1", "y=2"),
        ('"nnan", "nsz"', '"nnan"'),
        ("    @compiled\n    def called", "    @decorators.compiled_sums\n    def called"),
        ("math.sqrt", "math.exp"),
    ],
)
def test_a_stamp_changes_with_all_that_a_kernel_reaches(tmp_path, before, after):
    assert before in MODULE
    # Of an intrinsic the whole module is taken, which would hide what is overlooked elsewhere.
    text = MODULE if "builder" in before else MODULE.replace("twice(3)", "3")
    original = stamp(tmp_path, text)
    assert stamp(tmp_path, text) == original
    assert stamp(tmp_path, text.replace(before, after)) != original


def test_a_stamp_does_not_change_with_what_a_kernel_does_not_reach(tmp_path):
    text = MODULE.replace("twice(3)", "3")
    moved = text.replace("    TABLE", "    # a comment\n\n    OTHER = 3\n    TABLE")
    assert stamp(tmp_path, moved) == stamp(tmp_path, text)


def test_a_stamp_reaches_kernels_by_the_name_of_their_module(tmp_path, monkeypatch):
    user = """
        import stamped_below as below
        from perceptrank.kernels.compiled import compiled

        @compiled
        def kernel(x):
            return below.called(x)
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []
    for text in (MODULE, MODULE.replace("x + 1\n", "x + 2\n"), MODULE.replace("PAIR = (1,", "PAIR = (2,")):
        sys.modules.pop("stamped_below", None)
        module = sys.modules["stamped_below"] = type(sys)("stamped_below")
        exec(textwrap.dedent(text), vars(module))
        made.append(stamp(tmp_path, user))
    del sys.modules["stamped_below"]
    assert made[0] == made[2] != made[1]


def test_kernels_defined_in_functions_are_not_stamped():
    size = len(sys.argv)

    @compiled
    def closure(x):
        return x + size

    with pytest.raises(stamps.NotStampedError, match="closure is defined inside a function"):
        stamps.stamp_of(closure)
    assert closure(1) == 1 + size
    assert not closure.stats.cache_hits


def test_keys_differ_between_settings_of_numba(monkeypatch):
    codegen = compiled(lambda x: x).targetctx.codegen()
    before = stamps.key_of((numba.int64,), codegen)
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 2)
    assert stamps.key_of((numba.int64,), codegen) != before


def test_keys_tell_types_apart_by_more_than_their_names():
    codegen = compiled(lambda x: x).targetctx.codegen()
    first, second = (type("Pair", (tuple,), {"_fields": fields, "_field_defaults": {}}) for fields in ("ab", "ba"))
    kinds = [numba.types.NamedUniTuple(numba.int64, 2, kind) for kind in (first, second)]
    assert str(kinds[0]) == str(kinds[1])
    assert stamps.key_of((kinds[0],), codegen) != stamps.key_of((kinds[1],), codegen)
    with pytest.raises(stamps.NotStampedError, match="differs from process to process"):
        stamps.key_of((numba.typeof(compiled(lambda x: x)),), codegen)


def test_the_warning_is_given_once(monkeypatch):
    monkeypatch.setattr(cache_folder, "_reasons", [])
    with pytest.warns(CacheWarning, match="compiled in memory, and again by the next process: why"):
        cache_folder.warn_uncached("why")
    cache_folder.warn_uncached("why else")  # a second warning would be an error


def test_arrays_are_stamped_by_type_and_content():
    arrays = [np.zeros(2), np.zeros(2, np.int64), np.zeros((2, 1)), np.ones(2)]
    digests = set()
    for array in arrays:
        stamp = stamps._Stamp()
        stamp.add(array, ())
        digests.add(stamp.digest())
    assert len(digests) == len(arrays)
