"""The command `serve`."""

import sys
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.making import load_ranker, make_learner
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.tables import print_json

if TYPE_CHECKING:
    from perceptrank.serve.http.access import Token

_TOKENS = ("add_token", "token_days", "list_tokens", "revoke_token")
_ONCE = ("config", *_TOKENS, "verify", "backup", "check", "as_json", "help")  # options that no configuration file sets
_NEEDED = ("fastapi", "msgspec", "prometheus_client", "uvicorn")

LogFormat = StrEnum("LogFormat", "text json")


def _once(*flags: str, **settings: Any) -> Any:
    """Return an option that is for one call alone: the environment does not set it."""
    return typer.Option(*flags, allow_from_autoenv=False, **settings)


def serve(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML configuration file with these options, and the tables settings and limits. The command line and "
            "the environment (PERCEPTRANK_SERVE_PORT, …) take precedence.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Model that a new ranker starts from, and the name of the ranker (default: 'default'); may be "
            "repeated. Without it, a ranker starts untrained, with the feature names of the first answer.",
        ),
    ] = None,
    incumbent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Like --model, for a model or weights (JSON by name, or a linear model of Solr, Elasticsearch or "
            "OpenSearch) that rank but do not learn.",
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Learner that a new ranker starts with, such as clicks. A click learner together with --incumbent "
            "starts by ranking as that model does, and departs from it as clicks give evidence.",
        ),
    ] = None,
    explore: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="How rankings are randomised to learn from clicks: own (of the click learner, the default), "
            "fair-pairs, plackett-luce:TEMPERATURE, shuffle:K (the best K), or none.",
        ),
    ] = None,
    explore_share: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Share of the rankings that are randomised. Default: 1.")
    ] = None,
    challenger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[RANKER/]NAME=WHAT",
            help="Model that learns from the same answers and is compared with the current model: a file with a model "
            "or weights, or the name of an algorithm; may be repeated. Users see its rankings only if lists are "
            "explored, in the share that the setting challenger_share says. A challenger that the log has already is "
            "not added again.",
        ),
    ] = None,
    promote_at: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR",
            help="Promote a challenger automatically once grades, or fair preferences of clicks, show that it is "
            "better. ERROR is the probability, such as 0.05, of ever promoting a challenger that is not better.",
        ),
    ] = None,
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the logs and snapshots; created if missing.")
    ] = Path("perceptrank-data"),
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="PostgreSQL database for the logs, postgresql://…; by default SQLite files."),
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URL",
            help="Be a replica of another service: rank with its models, learn what it learns, and send it the "
            "answers. DIR is its --data on this machine, URL its address.",
        ),
    ] = None,
    follow_token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Admin token of the service to follow; better set in the environment."),
    ] = None,
    primary: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where a replica sends answers; by default to the service that it follows."),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of processes at the port; one learns, the others follow it."),
    ] = 1,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port to listen on; 0 for any free port.")
    ] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs tokens.")] = "127.0.0.1",
    quick_start: Annotated[
        bool, typer.Option("--quick-start", help="Check the log only from the newest snapshot on.")
    ] = False,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Write a line of JSON per request to standard error.")
    ] = False,
    log_features: Annotated[
        bool, typer.Option("--log-features", help="Write the content of requests, with features, to the access log.")
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option(help="Write messages as text, or as lines of JSON.")
    ] = LogFormat.text,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces",
            help="Send OpenTelemetry spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, by default at "
            "http://localhost:4318; that variable alone turns them on too.",
        ),
    ] = False,
    rate_limit: Annotated[
        float | None, typer.Option(metavar="N", help="Requests per second allowed per token; by default unlimited.")
    ] = None,
    add_token: Annotated[
        str | None,
        _once(metavar="NAME=SCOPES", help="Create a token, print it and exit; scopes: rank, feedback, watch, admin."),
    ] = None,
    token_days: Annotated[
        float | None, _once(metavar="DAYS", help="Days until the new token expires; by default never.")
    ] = None,
    list_tokens: Annotated[bool, _once("--list-tokens", help="List the tokens and exit.")] = False,
    revoke_token: Annotated[
        str | None, _once(metavar="NAME", help="Revoke a token and exit; a running service refuses it at once.")
    ] = None,
    verify: Annotated[
        Path | None, _once(metavar="DIR", help="Replay the logs of a folder, compare with every snapshot, and exit.")
    ] = None,
    backup: Annotated[
        Path | None,
        _once(
            metavar="DEST",
            help="Copy the logs and newest snapshots of --data to a new folder, also while a service uses them, and "
            "exit. To restore, serve with --data DEST; tokens are not copied.",
        ),
    ] = None,
    check: Annotated[bool, _once("--check", help="Read settings and logs, compile, and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a service that ranks, logs the answers of users, acknowledges them, and learns from them.

    An answer that was acknowledged is never lost, and after any crash the model is, bit for bit, the one that learns
    the log offline. Stops in order on SIGTERM and Ctrl-C. docs/serve.md is a tutorial.

    Example: perceptrank serve --model model.json --data ranker --port 8080
    """
    if lacking := [name for name in _NEEDED if find_spec(name) is None]:
        raise ImportError(f"serve needs {', '.join(lacking)}: pip install 'perceptrank[serve]'")
    if verify is not None:
        raise typer.Exit(_verify(verify, database, as_json=as_json))
    if backup is not None:
        _back_up(data, backup, database, as_json=as_json)
        return
    from perceptrank.serve.http.access import Access

    if add_token is not None:
        name, _, scopes = add_token.partition("=")
        data.mkdir(parents=True, exist_ok=True)
        print(Access(data).add(name, [scope for scope in scopes.split(",") if scope], token_days))
        return
    if token_days is not None:
        raise ValueError("--token-days is for a new token: say --add-token NAME=SCOPES too")
    if revoke_token is not None:
        Access(data).revoke(revoke_token)
        print(f"revoked {revoke_token}", file=sys.stderr)
    if list_tokens:
        _list_tokens(Access(data).tokens, as_json=as_json)
    if list_tokens or revoke_token is not None:
        return
    from perceptrank.serve import traces as tracing
    from perceptrank.serve.config import Config
    from perceptrank.serve.http.app import make_app
    from perceptrank.serve.http.log_lines import set_up
    from perceptrank.serve.http.server import address_of, listen, run
    from perceptrank.serve.replicas.links import announced
    from perceptrank.serve.replicas.replica import Replica
    from perceptrank.serve.replicas.workers import Workers
    from perceptrank.serve.service import Service
    from perceptrank.serve.settings import Limits, Settings
    from perceptrank.serve.warm_up import announce_compiling, start_learning, warm_up

    tracing.set_up(wanted=traces)
    others: dict[str, Any] = {"--model": model, "--incumbent": incumbent, "--algorithm": algorithm}
    others |= {"--challenger": challenger, "--promote-at": promote_at}
    _check_replica(follow, {"--follow-token": follow_token, "--primary": primary}, others, workers)
    with_tokens = Path(follow) if follow is not None and "://" not in follow else data
    tables, access, log = Config.read(config), Access(with_tokens), set_up(log_format)
    settings = tables.table(Settings, promote_at=promote_at, explore=explore, explore_share=explore_share)
    limits = tables.table(Limits, rate_limit=rate_limit)
    models, fixed = _models("--model", model or []), _models("--incumbent", incumbent or [])
    if algorithm is not None:
        models |= _start(algorithm, models, fixed)
    if both := sorted(models.keys() & fixed.keys()):
        advice = "use --model if it learns, --incumbent if it does not"
        raise ValueError(f"--model and --incumbent both name the ranker {both[0]}: {advice}")

    def open_service() -> Service:
        if follow is not None:
            return Replica(follow, settings, database=database, token=follow_token, primary=primary)
        options: dict[str, Any] = {"check_all": not quick_start, "database": database, "fixed": list(fixed)}
        return Service(data, {**models, **fixed}, settings, challengers=_challengers(challenger or []), **options)

    if workers > 1:
        with listen(host, port, access) as alone:  # else it would join another service at the port
            port = alone.getsockname()[1]
    with ExitStack() as stack:
        stack.enter_context(announce_compiling())
        listening = stack.enter_context(listen(host, port, access, shared=workers > 1))
        service = stack.enter_context(open_service())
        for ranker in service.rankers.values():
            warm_up(ranker.current, learning=check or follow is not None)
        versions = {name: ranker.current.version for name, ranker in service.rankers.items()}
        shown = ", ".join(f"{name} (version {version})" for name, version in versions.items())
        if check:
            log.info("all is well: %s", shown, extra={"fields": {"versions": versions}})
            return
        where = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        also = [stack.enter_context(listen("127.0.0.1", 0, access))] if workers > 1 else []
        if follow is None:
            access.own_token = stack.enter_context(announced(data, address_of([listening, *also][-1])))
        crew = None
        logging: dict[str, Any] = {"access_log": access_log, "log_features": log_features}
        if workers > 1:
            plan: dict[str, Any] = {"folder": str(data), "database": database, "host": host, "port": port}
            plan |= {"settings": asdict(settings), "limits": asdict(limits), "log_format": log_format, "app": logging}
            crew = Workers(workers - 1, plan, service, access.own_token)
            stack.callback(crew.stop)

        def started() -> None:
            log.info("serving %s at %s", shown, where, extra={"fields": {"versions": versions, "address": where}})
            if crew is not None:
                crew.start()
            if follow is None:
                start_learning(service)

        app = make_app(service, access, limits, **logging)
        run(app, listening, started, limits, also=also, before_stop=None if crew is None else crew.stop)
    log.info("stopped; everything is logged and saved")


def _check_replica(follow: str | None, needing: dict[str, Any], excluded: dict[str, Any], workers: int) -> None:
    """Raise if options for replicas come without --follow, or it comes with options that only a primary has."""
    alone = [option for option, value in needing.items() if value is not None]
    wrong = [option for option, value in excluded.items() if value]
    if follow is None and alone:
        raise ValueError(f"{alone[0]} is for a replica: say --follow DIR or --follow URL too")
    if follow is not None and wrong:
        raise ValueError(f"--follow and {wrong[0]} exclude each other: a replica has the models of its primary")
    if follow is not None and workers > 1:
        raise ValueError("--follow and --workers exclude each other: start several replicas, at ports of their own")


def _back_up(folder: Path, destination: Path, database: str | None, *, as_json: bool) -> None:
    from perceptrank.serve.backup import back_up

    if database is not None:
        raise ValueError(
            "--backup copies logs in files, not in a database: use pg_dump --schema=perceptrank, and copy the folder"
        )
    ends = back_up(folder, destination)
    if as_json:
        print_json({"backup": str(destination), "entries": ends})
    else:
        print(*(f"{name}: {end} entries" for name, end in ends.items()), sep="\n")


def _list_tokens(tokens: "list[Token]", *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for token in tokens:
        end = None if token.expires is None else datetime.fromtimestamp(token.expires, UTC).isoformat(" ", "minutes")
        rows.append({"name": token.name, "scopes": token.scopes, "expires": end, "expired": token.has_expired})
    if as_json:
        print_json({"tokens": rows})
        return
    for row in rows:
        verb = "expired" if row["expired"] else "expires"
        end = f"{verb} {row['expires']}" if row["expires"] else "does not expire"
        print(f"{row['name']}: {', '.join(row['scopes'])}; {end}")


def _models(option: str, values: list[str]) -> "dict[str, pr.Learner]":
    models: dict[str, pr.Learner] = {}
    for value in values:
        name, equals, path = value.partition("=")
        name, path = (name, path) if equals and not Path(value).exists() else ("default", value)
        if name in models:
            raise ValueError(f"{option} names the ranker {name} twice: say {option} NAME={path}")
        models[name] = pr.load(path) if option == "--model" else load_ranker(path)
    return models


def _start(algorithm: str, models: "dict[str, pr.Learner]", fixed: "dict[str, pr.Learner]") -> "dict[str, pr.Learner]":
    """Return new learners by ranker: one in place of each incumbent, which it starts as, or a default one."""
    from perceptrank.learners.learning import takes_clicks

    if models:
        raise ValueError("--algorithm and --model both say what a new ranker starts with: give one of them")
    if not fixed:
        return {"default": make_learner(algorithm, {})}
    if not takes_clicks(make_learner(algorithm, {})):
        advice = f"add it as a challenger, --challenger new={algorithm}, or learn it with 'perceptrank learn --from'"
        raise ValueError(f"--algorithm {algorithm} learns from grades, and does not start from --incumbent: {advice}")
    if algorithm != "clicks":
        raise ValueError(f"--algorithm {algorithm} does not start from --incumbent: use --algorithm clicks")
    start = {
        name: make_learner(algorithm, {"production": "score", "transforms": [pr.ScoreOf(incumbent), "auto"]})
        for name, incumbent in fixed.items()
    }
    fixed.clear()
    return start


def _challengers(values: list[str]) -> "dict[str, dict[str, pr.Learner]]":
    challengers: dict[str, dict[str, pr.Learner]] = {}
    for value in values:
        place, equals, source = value.partition("=")
        ranker, slash, name = place.rpartition("/")
        if not equals or not source:
            raise ValueError(f"--challenger must be NAME=FILE or NAME=ALGORITHM, got {value}")
        known = challengers.setdefault(ranker if slash else "default", {})
        if name in known:
            raise ValueError(f"--challenger names {place} twice: give each a name of its own")
        known[name] = load_ranker(source) if Path(source).exists() else make_learner(source, {})
    return challengers


def _verify(folder: Path, database: str | None, *, as_json: bool) -> int:
    from perceptrank.serve.verification import verify

    results = verify(folder, database)
    if as_json:
        print_json({"rankers": [asdict(result) | {"is_sound": result.is_sound} for result in results]})
    else:
        for result in results:
            print(
                f"{result.ranker}: {result.entries} entries, {result.answers} answers, {result.snapshots} snapshots: "
                f"{'all is what a replay of the log gives, to the bit' if result.is_sound else 'problems'}",
                *(f"  {problem}" for problem in result.problems),
                sep="\n",
            )
    sys.stdout.flush()
    return 0 if all(result.is_sound for result in results) else 1


def configure(ctx: Any) -> None:
    """Set options that neither the command line nor the environment sets as the file of --config says."""
    from perceptrank.serve.config import Config, check_environment

    options = {option.name: option for option in ctx.command.params if option.name not in _ONCE}
    check_environment([*options, "config"])
    config = Config.read(ctx.params["config"])
    for name, value in config.options().items():
        if name not in options:
            raise config.unknown((name,), options)
        converted = _convert(ctx, config, options[name], value)
        source = ctx.get_parameter_source(name)
        if source is None or source.name == "DEFAULT":
            ctx.params[name] = converted


def _convert(ctx: Any, config: Any, option: Any, value: Any) -> Any:
    """Return the value of an option as the command takes it; paths are relative to the file."""
    name, folder = option.name, config.path.parent
    if name in ("model", "incumbent"):
        return [f"{ranker}={folder / path}" for ranker, path in _by_name(config, name, value).items()]
    if name == "challenger":
        models = _by_name(config, name, value).items()
        return [f"{place}={folder / model if (folder / model).is_file() else model}" for place, model in models]
    if option.is_flag != isinstance(value, bool) or not isinstance(value, (bool, int, float, str)):
        expected = "true or false" if option.is_flag else "text or a number"
        raise config.error((name,), f"{name} must be {expected}, got {value!r}")
    if name == "data" or (name == "follow" and "://" not in str(value)):
        value = str(folder / str(value))
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
