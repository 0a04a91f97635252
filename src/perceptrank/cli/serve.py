"""The command `serve`."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import perceptrank as pr
from perceptrank.cli.making import make_learner
from perceptrank.cli.models import load_ranker
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.tables import print_json

_NEEDED = ("fastapi", "msgspec", "prometheus_client", "uvicorn")


class LogFormat(StrEnum):
    """Formats of the service's messages."""

    text = "text"
    json = "json"


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
            "repeated. Without it, the ranker starts untrained and takes the feature names from the first answer.",
        ),
    ] = None,
    incumbent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Like --model, for a model that ranks but does not learn; or weights: JSON with names and weights, or "
            "a linear model of Solr, Elasticsearch or OpenSearch.",
        ),
    ] = None,
    challenger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[RANKER/]NAME=WHAT",
            help="Model that learns from the same answers without ranking, and is compared with the current model: a "
            "file with a model or weights, or the name of an algorithm; may be repeated. A challenger that the log "
            "has already is not added again.",
        ),
    ] = None,
    promote_at: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR",
            help="Promote a challenger automatically once it is shown to be better. ERROR is the probability, such as "
            "0.05, of ever promoting a challenger that is not better.",
        ),
    ] = None,
    data: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder of the logs and snapshots; created if missing."),
    ] = Path("perceptrank-data"),
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="PostgreSQL database for the logs, postgresql://…; by default SQLite files in the folder.",
        ),
    ] = None,
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
    rate_limit: Annotated[
        float | None,
        typer.Option(metavar="N", help="Requests per second allowed per token; by default unlimited."),
    ] = None,
    add_token: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=SCOPES",
            allow_from_autoenv=False,
            help="Create a token, print it and exit; scopes are rank, feedback, watch and admin, separated by commas.",
        ),
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            allow_from_autoenv=False,
            help="Replay the logs of a folder, compare with every snapshot, and exit.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", allow_from_autoenv=False, help="Read settings and logs, compile, and exit without serving."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a service that ranks, logs the answers of users, acknowledges them, and learns from them.

    An answer that was acknowledged is never lost, and after any crash the model is, bit for bit, the one that learns
    the log offline. Stops in order on SIGTERM and Ctrl-C. docs/serve.md is a walk through it.

    Example: perceptrank serve --model model.json --data ranker --port 8080
    """
    _check_installed()
    if verify is not None:
        raise typer.Exit(_verify(verify, database, as_json=as_json))
    from perceptrank.serve.http.access import Access

    if add_token is not None:
        name, _, scopes = add_token.partition("=")
        data.mkdir(parents=True, exist_ok=True)
        print(Access(data).add(name, [one for one in scopes.split(",") if one]))
        return
    from perceptrank.serve.config import Config
    from perceptrank.serve.http.app import make_app
    from perceptrank.serve.http.log_lines import set_up
    from perceptrank.serve.http.server import listen, run
    from perceptrank.serve.page import progress
    from perceptrank.serve.service import Service

    tables, access, log = Config.read(config), Access(data), set_up(log_format)
    settings, limits = tables.settings(promote_at=promote_at), tables.limits(rate_limit=rate_limit)
    models, fixed = _models("--model", model or []), _models("--incumbent", incumbent or [])
    if both := sorted(models.keys() & fixed.keys()):
        raise ValueError(f"--model and --incumbent both name the ranker {both[0]}: it learns, or it stays as it is")
    with (
        listen(host, port, access) as listening,
        Service(
            data,
            models | fixed,
            settings,
            check_all=not quick_start,
            database=database,
            fixed=list(fixed),
            challengers=_challengers(challenger or []),
        ) as service,
    ):
        for name, one in service.rankers.items():
            for message in one.messages:
                log.warning(message, extra={"fields": {"ranker": name}})
            one.warm_up()
            progress.warm_up(one.current)
        versions = {name: one.current.version for name, one in service.rankers.items()}
        shown = ", ".join(f"{name} (version {version})" for name, version in versions.items())
        if check:
            log.info("all is well: %s", shown, extra={"fields": {"versions": versions}})
            return
        where = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"

        def started() -> None:
            log.info("serving %s at %s", shown, where, extra={"fields": {"versions": versions, "address": where}})

        app = make_app(service, access, limits, access_log=access_log, log_features=log_features)
        run(app, listening, started, limits)
    log.info("stopped; everything is logged and saved")


def _check_installed() -> None:
    from importlib.util import find_spec

    lacking = [name for name in _NEEDED if find_spec(name) is None]
    if lacking:
        raise ImportError(f"serve needs {', '.join(lacking)}: pip install 'perceptrank[serve]'")


def _models(option: str, given: list[str]) -> "dict[str, pr.Learner | None]":
    found: dict[str, pr.Learner | None] = {}
    for one in given:
        name, equals, path = one.partition("=")
        name, path = (name, path) if equals and not Path(one).exists() else ("default", one)
        if name in found:
            raise ValueError(f"{option} names the ranker {name} twice: say {option} NAME={path}")
        found[name] = pr.load(path) if option == "--model" else load_ranker(path)
    return found


def _challengers(given: list[str]) -> "dict[str, dict[str, pr.Learner]]":
    found: dict[str, dict[str, pr.Learner]] = {}
    for one in given:
        place, equals, source = one.partition("=")
        ranker, slash, name = place.rpartition("/")
        if not equals or not source:
            raise ValueError(f"--challenger must be NAME=FILE or NAME=ALGORITHM, got {one}")
        known = found.setdefault(ranker if slash else "default", {})
        if name in known:
            raise ValueError(f"--challenger names {place} twice: give each a name of its own")
        known[name] = load_ranker(source) if Path(source).exists() else make_learner(source, {})
    return found


def _verify(folder: Path, database: str | None, *, as_json: bool) -> int:
    from dataclasses import asdict

    from perceptrank.serve.verification import verify

    found = verify(folder, database)
    if as_json:
        print_json({"rankers": [asdict(one) | {"is_sound": one.is_sound} for one in found]})
    else:
        for one in found:
            print(
                f"{one.ranker}: {one.entries} entries, {one.answers} answers, {one.snapshots} snapshots: "
                f"{'all is what a replay of the log gives, to the bit' if one.is_sound else 'problems'}"
            )
            for problem in one.problems:
                print(f"  {problem}")
    sys.stdout.flush()
    return 0 if all(one.is_sound for one in found) else 1
