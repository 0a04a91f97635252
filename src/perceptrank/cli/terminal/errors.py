"""Errors and warnings as users of the command line see them: one message, in terms of options."""

import errno
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import typer

from perceptrank.cli.terminal.streams import complain, discard, finish

_INTERRUPTED = 130
_EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)
_options: ContextVar[Mapping[str, Any]] = ContextVar("options of the running command", default={})  # noqa: B039
_COLUMNS = {"qid", "docid", "relevance", "weight", "features"}  # that --column names
# What --log sets, by the name in Python.
_OF_LOGS = {name: name for name in ("kind", "impressions", "max_session_clicks", "since")} | {"clicks": "click"}
_CODE = re.compile(r"`(?P<name>[\w.]+)(?:=(?P<value>[^`]*))?`")
_FUNCTIONS = {
    "read_clicks": "convert --clicks",
    "read_letor": "convert --group",
    "read_parquet": "convert --group",
    "read_table": "convert --group",
    "Store.compact": "perceptrank convert STORE STORE",
    "clicks.judgements": "perceptrank judge",
}


@contextmanager
def reported(options: Mapping[str, Any], *, debug: bool) -> Iterator[None]:
    """Print errors that a user can do something about, and warnings, as one message in terms of the given options."""
    token = _options.set(options)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _show_warning
            yield
    except BrokenPipeError:  # whoever reads our output has seen enough
        discard()
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    except Exception as error:
        from perceptrank.distributed.shards import ClusterError, ShardError

        expected = (*_EXPECTED, ClusterError, ShardError)
        message = _of_a_plugin(error) or (describe(error) if isinstance(error, expected) else None)
        if debug or message is None:
            raise
        if isinstance(error, OSError) and error.filename is None:
            finish()  # which says so if it is standard output that cannot be written to
        complain(f"error: {message}")
        raise typer.Exit(1) from None
    finally:
        _options.reset(token)


def describe(error: BaseException) -> str:
    """Return an error's message, with options of the running command in place of the parameters that it names."""
    from perceptrank.stream.validation import ParameterError

    if not isinstance(error, OSError) or error.errno is None:
        message = str(error)
        if isinstance(error, ParameterError):
            option = _options.get().get(error.parameter)
            name = error.parameter if option is None else option.opts[0]
            return f"{name}{message.removeprefix(error.parameter)}"
        return _CODE.sub(_as_option, message)
    if error.filename is None:
        return str(error.strerror)
    missing = error.errno == errno.ENOENT
    return f"there is no file {error.filename}" if missing else f"cannot use {error.filename}: {error.strerror}"


def leave_alone(names: Iterable[str]) -> None:
    """From now on, do not take these names for the options of the same name: the user has written them so."""
    own = set(names)
    _options.set({name: option for name, option in _options.get().items() if name not in own})


def _of_a_plugin(error: Exception) -> str | None:
    """Return the message for an error inside a learner that is not of this package; None if it is none.

    What such a learner says of its parameters is a message for users already.
    """
    cause: BaseException | None = error
    while cause is not None:
        frame, trace = None, cause.__traceback__
        while trace is not None:
            here = trace.tb_frame
            if _is_of_others(type(here.f_locals.get("self"))) and not _is_ours(here.f_globals.get("__name__", "")):
                frame = here
            trace = trace.tb_next
        if frame is not None:
            kind, method = type(frame.f_locals["self"]), frame.f_code.co_name
            if isinstance(cause, ValueError) and method in ("__init__", "check", "_check_parameters"):
                return None
            text = f"{type(cause).__name__}: {cause}".removesuffix(": ")
            return f"{kind.__name__}.{method} in {frame.f_code.co_filename} raised {text}; --debug shows the traceback"
        cause = cause.__cause__
    return None


def _is_of_others(kind: type) -> bool:
    from perceptrank.learners.learner import Learner

    return issubclass(kind, Learner) and not _is_ours(kind.__module__)


def _is_ours(module: str) -> bool:
    return module.startswith("perceptrank.")


def _as_option(code: re.Match[str]) -> str:
    """Return code of a message, `name` or `name=value`, as an option of the running command, if that has it."""
    name, value = code["name"], code["value"]
    if name in _COLUMNS and value == "…":
        return f"--column {name.removesuffix('s')}=…"
    option = _options.get().get("zero_missing" if (name, value) == ("missing", "'zero'") else name)
    if option is None and name in _OF_LOGS and "log" in _options.get() and (value is not None or name != "clicks"):
        return f"--log {_OF_LOGS[name]}" + ("" if value is None else f"={value.strip(chr(39))}")
    if option is None:
        return _FUNCTIONS.get(name, code[0].strip("`"))
    if option.is_flag:
        flags = option.secondary_opts if value == "False" else option.opts
        return str(flags[0]) if flags else code[0].strip("`")
    flag = str(option.opts[0])
    return flag if value in (None, "…") else f"{flag} {value.strip(chr(39))}"


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    for line in f"warning: {message}".split("\n"):  # one that lists errors has several
        complain(line)
