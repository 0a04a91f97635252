"""Options from a configuration file: for those that neither the command line nor the environment gives."""

from typing import Any

_ONCE = ("config", "add_token", "verify", "check", "as_json", "help")  # what to do now, which no file says


def configure(ctx: Any) -> None:
    """Fill in what the file that --config names says; raise if it is wrong."""
    options = {one.name: one for one in ctx.command.params if one.name not in _ONCE}
    from perceptrank.serve.config import Config, check_environment

    check_environment([*options, "config"])
    config = Config.read(ctx.params["config"])
    for name, value in config.options().items():
        if name not in options:
            raise config.unknown((name,), options)
        found = _converted(ctx, config, options[name], value)
        source = ctx.get_parameter_source(name)
        if source is None or source.name == "DEFAULT":
            ctx.params[name] = found


def _converted(ctx: Any, config: Any, option: Any, value: Any) -> Any:
    """Return the value of an option as the command takes it; paths are relative to the file."""
    name, folder = option.name, config.path.parent
    if name in ("model", "incumbent"):
        return [f"{one}={folder / path}" for one, path in _by_name(config, name, value).items()]
    if name == "challenger":
        given = _by_name(config, name, value).items()
        return [f"{one}={folder / model if (folder / model).is_file() else model}" for one, model in given]
    if option.is_flag != isinstance(value, bool) or not isinstance(value, (bool, int, float, str)):
        expected = "true or false" if option.is_flag else "text or a number"
        raise config.error((name,), f"{name} must be {expected}, got {value!r}")
    if name == "data":
        value = str(folder / value)
    try:
        return option.process_value(ctx, value if option.is_flag else str(value))
    except Exception as error:
        if not hasattr(error, "format_message"):  # which errors of options have
            raise
        raise config.error((name,), f"{name}: {getattr(error, 'message', error)}") from None


def _by_name(config: Any, option: str, value: Any) -> dict[str, str]:
    """Return a table of files; where a ranker needs no name, a file alone is that of the default one."""
    files = {"default": value} if isinstance(value, str) and option != "challenger" else value
    if not isinstance(files, dict) or not all(isinstance(path, str) for path in files.values()):
        raise config.error((option,), f"{option} must be a file, or a table of files by name, got {value!r}")
    return files
