"""Kernels on disk after faults: damaged files, full and unwritable disks, Ctrl-C while compiling, another Numba."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from support.kernels import INNER, NOBODY, finish, needs_root, run, write

from perceptrank.kernels import cache, cache_folder
from perceptrank.kernels.cache_folder import CacheWarning

# Calls kernels again and again, as new processes would, after files of the cache have changed in many ways.
FUZZ = """
import importlib, os, pathlib, random, shutil, sys, warnings
place, seed, rounds = sys.argv[1:]
sys.path.insert(0, place)
sys.dont_write_bytecode = True
import numba
folder = pathlib.Path(place, "cache", "perceptrank")
chance = random.Random(int(seed))

def call():
    for name in ("inner", "outer"):
        sys.modules.pop(name, None)
    outer = importlib.import_module("outer").outer
    assert (outer(2.0), outer(2)) == (6.0, 6.0)
    return sum(outer.stats.cache_hits.values())

def flip(content):
    damaged = bytearray(content)
    for _ in range(chance.choice([1, 1, 20])):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)

def blank(content):
    start = chance.randrange(len(content))
    return content[:start] + bytes(len(content) - start)

def damage(path, files):
    content = files[path]
    start = chance.randrange(len(content))
    kind = chance.choice(["cut", "cut", "blank", "flip", "flip", "empty", "insert", "other", "folder", "pipe", "link"])
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe" and hasattr(os, "mkfifo"):
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(folder / "nowhere")
    else:
        path.write_bytes({
            "cut": content[:start],
            "blank": blank(content),
            "flip": flip(content),
            "insert": content[:start] + chance.randbytes(9) + content[start:],
            "other": files[chance.choice([one for one in files if one != path])],
        }.get(kind, b""))

assert call() == 0
assert call() == 2, "both entries are found"
whole = {path: path.read_bytes() for path in sorted(folder.iterdir())}
assert len(whole) == 2, "a kernel for two types of arguments"
for number in range(int(rounds)):
    for path in whole:
        damage(path, whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a folder in the place of an entry is never replaced
        print(number, "hits", call(), flush=True)
    shutil.rmtree(folder)
    folder.mkdir(mode=0o755)
    for path, content in whole.items():
        path.write_bytes(content)
"""


def fuzz(place, seed, rounds):
    variables = os.environ | {"PERCEPTRANK_CACHE_DIR": str(place / "cache")}
    command = [sys.executable, "-c", FUZZ, str(place), str(seed), str(rounds)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60 + 2 * rounds, check=False)


@pytest.mark.engine
def test_damaged_files_are_compiled_again(place):
    result = fuzz(place, 0, 4)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split() == [word for number in range(4) for word in (str(number), "hits", "0")]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2))
def test_files_damaged_at_random_are_compiled_again(place, seed):
    rounds = 200
    result = fuzz(place, os.getpid() + seed, rounds)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("hits 0") == rounds


# Interrupts each call at a moment, then calls again; a new function each time, as it would be in a new process.
INTERRUPTED = """
import importlib, json, os, pathlib, random, signal, sys, threading, time
place, seed, rounds = sys.argv[1:]
sys.path.insert(0, place)
sys.dont_write_bytecode = True
chance = random.Random(int(seed))
source = pathlib.Path(place, "inner.py")
text = source.read_text()
handler = signal.getsignal(signal.SIGINT)
counts = {"interrupted": 0, "finished": 0}

def load(number):
    source.write_text(text.replace("STEP = 1.0", f"STEP = {number}.0"))
    for name in ("inner", "outer"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module("outer").ramp

def check(ramp, number, interrupt):
    try:
        interrupt()
        ramp(2)
        for _ in range(1000):  # a signal that comes late is handled before the next round
            time.sleep(0.001)
            if done.is_set():
                break
        counts["finished"] += 1
    except KeyboardInterrupt:
        counts["interrupted"] += 1
    done.wait()
    assert signal.getsignal(signal.SIGINT) is handler
    assert ramp(2).tolist() == [2.0 * number, 2.0 * (number + 1)]

done = threading.Event()
def at_random(longest):
    done.clear()
    def wait():
        time.sleep(chance.uniform(0, longest))
        os.kill(os.getpid(), signal.SIGINT)
        done.set()
    threading.Thread(target=wait, daemon=True).start()

def in_a_callback_of_llvm():
    def look(frame, event, _):
        if event == "call" and frame.f_code.co_name == "_object_compiled_hook":
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)
    done.set()
    sys.setprofile(look)

longest = 1.5
for number in range(int(rounds)):
    began = time.perf_counter()
    try:
        check(load(number), number, lambda: at_random(longest))
    except KeyboardInterrupt:
        counts["interrupted"] += 1  # just after the call
        done.wait()
    longest = 0.8 * (time.perf_counter() - began)
before = counts["interrupted"]
check(load(1000), 1000, in_a_callback_of_llvm)
counts["in a callback"] = counts["interrupted"] - before
print(json.dumps(counts))
"""


def interrupt(place, seed, rounds):
    variables = {name: value for name, value in os.environ.items() if name != "NUMBA_BOUNDSCHECK"}
    variables |= {"PERCEPTRANK_CACHE_DIR": str(place / "cache")}
    command = [sys.executable, "-c", INTERRUPTED, str(place), str(seed), str(rounds)]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.engine
def test_an_interrupted_compilation_starts_again(place):
    counts = finish(interrupt(place, 0, 1))
    assert counts["in a callback"] == 1, "an interrupt must not be lost"


@pytest.mark.deep
def test_compilations_interrupted_at_random_start_again(place):
    total = 0
    for part in range(10):
        write(place, "inner", INNER)
        shutil.rmtree(place / "cache", ignore_errors=True)
        total += finish(interrupt(place, os.getpid() + part, 20))["interrupted"]
    assert total > 100, "most interrupts must hit"


@pytest.fixture
def full_disk(place):
    """A file system without room for a single kernel."""
    disk = place / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4k,mode=755", "tmpfs", str(disk)]
    if shutil.which("mount") is None:
        pytest.skip("no small disk can be mounted: there is no command mount")
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.engine
def test_on_a_full_disk_kernels_are_compiled_in_memory(place, full_disk):
    result = run(place, "outer(2.0)", "later(2.0)", PERCEPTRANK_CACHE_DIR=str(full_disk))
    assert result["values"] == [6.0, 6.5]
    (warning,) = result["warnings"]
    assert "cannot be written (No space left on device)" in warning
    assert not [path for path in full_disk.rglob("*") if path.is_file() and path.stat().st_size], "no half of a file"


STALE = """
import sys
sys.path.insert(0, sys.argv[1])
import numba, outer
kernel = numba.njit(cache=True)(outer.outer.py_func)
print(kernel(2.0), sum(kernel.stats.cache_hits.values()))
"""


@pytest.mark.deep
@needs_root
def test_where_nothing_can_be_written_code_beside_the_source_is_not_run(place):
    """Numba's own cache would run it, as an edit in another file escapes it."""
    variables = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    variables |= {"PERCEPTRANK_CACHE_DIR": str(place / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", STALE, str(place)]
    subprocess.run(command, env=variables, check=True, capture_output=True)
    write(place, "inner", INNER.replace("STEP = 1.0", "STEP = 3.0"))
    old = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    assert old.stdout.split() == ["6.0", "1"], "the test must make old code that Numba would run"
    for folder in (place / "cache", place / "cache" / "perceptrank"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o555)
    result = run(place, "outer(2.0)", user=NOBODY, PYTHONDONTWRITEBYTECODE="1")
    assert (result["values"], result["hits"]) == ([10.0], {"outer": 0})
    assert ["cannot be written" in warning for warning in result["warnings"]] == [True]


@needs_root
@pytest.mark.parametrize(("mode", "owner"), [(0o666, 0), (0o664, 0), (0o644, NOBODY), (0o600, NOBODY)])
def test_a_file_that_others_can_change_is_not_read(tmp_path, monkeypatch, mode, owner):
    monkeypatch.setattr(cache_folder, "_reasons", [])
    path = tmp_path / "entry"
    path.write_bytes(b"code")
    assert cache_folder.read_trusted(path) == b"code"
    path.chmod(mode)
    os.chown(path, owner, 0)
    with pytest.warns(CacheWarning, match=f"{path} .*delete it"):
        assert cache_folder.read_trusted(path) is None


# Names that the interpreter, the package and what it needs look for.
PACKAGES = "perceptrank", "numpy", "numba", "llvmlite", "typer", "click", "rich", "lazy_loader", "scipy", "matplotlib"
MODULES = "json", "random", "pickle", "tempfile", "sitecustomize", "usercustomize", "cli", "first_use"
TEXT = "".join(f"{r} qid:{q} 1:{q + r} 2:{r * r}\n" for q in range(4) for r in range(3))
LEARN = "learn data.txt --save model.json"
COMMANDS = [
    LEARN,
    "evaluate model.json data.txt",
    "rank model.json data.txt --out scores.txt",
    "compare data.txt --algorithm perceptron --algorithm listwise",
    "convert data.txt store --to store",
    "bound data.txt",
    "datasets",
    "algorithms",
    "simulate made.txt --queries 20",
    "adversary --margin 0.5",
    "warm-up --algorithm listwise",
    "reproduce --quick --seeds 1 --out report",
]


def run_among_decoys(folder, *command):
    """Run a command in a folder of Python files that would leave a mark, and return the marks."""
    (folder / "data.txt").write_text(TEXT)
    for name in (*PACKAGES, *MODULES):
        (folder / f"{name}.py").write_text(f"open({str(folder / name)!r} + '.ran', 'w').close()\n")
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return result, sorted(path.stem for path in folder.glob("*.ran"))


@pytest.fixture(scope="module")
def script():
    """The installed command."""
    found = Path(sys.executable).with_name("perceptrank")
    if not found.exists():
        pytest.skip(f"the package is not installed: there is no {found}")
    return str(found)


@pytest.mark.engine
def test_files_beside_the_data_are_not_run(tmp_path, script):
    result, marks = run_among_decoys(tmp_path, script, *LEARN.split())
    assert (result.returncode, marks) == (0, []), result.stderr
    result, marks = run_among_decoys(tmp_path, sys.executable, "-P", "-m", "perceptrank", "datasets")
    assert (result.returncode, marks) == (0, []), result.stderr
    _, marks = run_among_decoys(tmp_path, sys.executable, "-m", "perceptrank", "datasets")
    assert marks == ["perceptrank"], "without -P Python itself looks in the current folder first"


@pytest.mark.deep
def test_files_beside_the_data_are_not_run_by_any_command(tmp_path, script):
    for command in COMMANDS:
        result, marks = run_among_decoys(tmp_path, script, *command.split())
        assert (result.returncode, marks) == (0, []), command + result.stderr


# Hides names of Numba that the cache needs, the first by another name, so that Numba itself still works.
OTHER_NUMBA = """
import pkgutil, warnings
import numba.core.bytecode, numba.core.compiler, numba.extending
from numba.core.registry import cpu_target
identity = numba.core.bytecode.FunctionIdentity
function = identity.from_function.__func__
names = ["numbers" if name == "_unique_ids" else name for name in function.__code__.co_names]
function.__code__ = function.__code__.replace(co_names=tuple(names))
identity.numbers = identity._unique_ids
del identity._unique_ids, numba.core.compiler.CompileResult._rebuild, numba.core.compiler.CompileResult._reduce
del numba.extending._Intrinsic, numba.core.registry.CPUDispatcher
resolve = pkgutil.resolve_name
def resolve_others(name):
    if name.startswith("numba.core.event"):
        raise ImportError(name)
    return resolve(name)
pkgutil.resolve_name = resolve_others
for options in cpu_target.options.__mro__:
    for name in ("_nrt", "no_cpython_wrapper", "no_cfunc_wrapper"):
        if name in vars(options):
            delattr(options, name)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import perceptrank as pr
    learner = pr.RankNet(learning_rate=2.0)
    learner.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    print(learner.weights.tolist())
for warning in caught:
    print(warning.category.__name__, warning.message)
"""


@pytest.mark.engine
def test_with_a_numba_of_other_names_kernels_are_compiled_in_memory(tmp_path):
    variables = os.environ | {"PERCEPTRANK_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", OTHER_NUMBA]
    process = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    weights, warning = process.stdout.splitlines()
    assert weights == "[-1.0, 1.0]"
    assert warning.startswith("CacheWarning kernels are compiled in memory")
    assert f"the cache does not fit Numba {numba.__version__} (" in warning
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["numba.core.bytecode:Other.name", "numba.core.other:name"])
def test_a_missing_name_is_a_reason_not_to_cache(name):
    parts, reason = cache.look_up("numba.core.compiler:CompileResult._rebuild", name)
    assert parts == [None, None]
    assert "ther'" in reason
