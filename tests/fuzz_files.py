"""Look for files whose reading ends otherwise than in what was read or a `FormatError`.

`python tests/fuzz_files.py --seconds 60 --seed 0` changes stores, Parquet files, traces and models, reads each of them
in at most 1 GiB of memory and 20 seconds, and stops at the first that leads to another error, a crash or wrong data.
"""

import argparse
import faulthandler
import mmap
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from itertools import count

MEMORY, SECONDS = 2**30, 20


def read_cases(seed, n_cases, end, place):
    """Read changed files until the time or their number is over; `place` gets the number of each before it is read."""
    from support.file_cases import Files

    import perceptrank as pr

    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message=".*columns of text are no features")  # a column that was renamed
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        with open("/proc/self/statm", encoding="ascii") as status:
            used = int(status.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for number in range(n_cases) if n_cases else count():
            if time.monotonic() > end:
                break
            place[:] = number.to_bytes(8, "little")
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            try:
                files.run(seed + number)
            except pr.FormatError as error:
                if error.path not in str(error) or not error.path.startswith(folder):
                    print(f"the message does not name the file: {error}")
                    return 1
            except BaseException as error:
                if not str(error).startswith("there are no documents in "):
                    traceback.print_exc()
                    return 1
            finally:
                faulthandler.cancel_dump_traceback_later()
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    place = mmap.mmap(-1, 8)
    child = os.fork()  # which a crash ends, or the limit on time
    if child == 0:
        faulthandler.enable()
        code = read_cases(arguments.seed, arguments.cases, time.monotonic() + arguments.seconds, place)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    number = int.from_bytes(place[:], "little")
    if status:
        print(f"{number + 1} cases; see --seed {arguments.seed + number} --cases 1 (status {status})")
        return 1
    print(f"{number + 1} cases, nothing but what was read and FormatError")
    return 0


if __name__ == "__main__":
    sys.exit(main())
