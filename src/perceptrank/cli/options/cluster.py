"""Commands on a cluster of Dask or Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from perceptrank.cli.options.reading import ClickReading, Reading
from perceptrank.cli.terminal.streams import complain
from perceptrank.io.paths import is_address

CONNECTS = 30  # seconds that a scheduler has to answer


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Options of a cluster."""

    panel: ClassVar[str] = "Several processes"
    dask: Annotated[bool, typer.Option("--dask", help="Use Dask, on several processes of this machine.")] = False
    spark: Annotated[bool, typer.Option("--spark", help="Use Spark, on several processes of this machine.")] = False
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Use the Dask cluster at an address (tcp://host:8786), or with --spark that of a master "
            "(spark://host:7077 or yarn); its workers must find the files under the same names.",
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes for --dask or --spark; by default one per processor.")
    ] = None

    @property
    def is_used(self) -> bool:
        """Tell if work is to be done by a cluster."""
        return self.dask or self.spark or self.scheduler is not None

    def check(self) -> None:
        """Raise if options are given that apply to a cluster only, or to the other one."""
        needless = [f"--{name.replace('_', '-')}" for name, value in asdict(self).items() if value]
        if not self.is_used and needless:
            raise ValueError(f"{', '.join(needless)} can only be given with --dask, --spark or --scheduler")
        if self.dask and self.spark:
            raise ValueError("--dask and --spark are two engines: give one of them")
        if self.scheduler is not None and self.workers is not None:
            raise ValueError("--workers applies to processes of this machine: the cluster of a --scheduler has its own")

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Connect to the cluster, or start one."""
        if self.spark:
            from perceptrank.distributed.spark_executor import spark_session

            with spark_session(self.scheduler, self.workers) as session:
                if page := session.sparkContext.uiWebUrl:
                    complain(f"page of the cluster: {page}")
                yield session
            return
        try:
            import distributed
        except ImportError:
            raise ImportError("--dask and --scheduler need the extra dask: pip install 'perceptrank[dask]'") from None
        if self.scheduler is not None:
            try:
                client = distributed.Client(self.scheduler, timeout=CONNECTS)
            except (OSError, ValueError) as error:
                raise OSError(f"there is no Dask scheduler at {self.scheduler}: {error}") from None
            with client:
                complain(f"dashboard of the cluster: {client.dashboard_link}")
                yield client
            return
        from perceptrank.distributed.dask_executor import local_cluster

        with local_cluster(self.workers) as cluster, distributed.Client(cluster) as client:
            complain(f"dashboard of the cluster: {client.dashboard_link}")
            yield client


@dataclass(frozen=True, kw_only=True)
class Dealing(Cluster):
    """Options of work on shards."""

    shards: Annotated[
        int | None,
        typer.Option(min=1, help="Number of shards on a cluster, of joined or split files; by default one per file."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Sharing(Dealing):
    """Options of learning from shards."""

    epochs: Annotated[int | None, typer.Option(min=1, help="Number of passes over all shards; by default 5.")] = None
    keep_epochs: Annotated[
        Path | None,
        typer.Option(help="Folder for the model after each epoch, on a cluster; the same command goes on from there."),
    ] = None


def options_for_counting(dealing: Dealing, reading: ClickReading) -> dict[str, Any]:
    """Return what functions of `distributed` that count clicks take beside the files."""
    reading = reading.of_impressions()
    check_files(reading, may_be_logs=True)
    if any(map(is_address, reading.files)):
        raise ValueError("a live index is read as a whole: leave out --dask, --spark and --scheduler")
    if not reading.from_clicks:
        return reading.options() | {"shards": dealing.shards}
    return reading.options() | {"shards": dealing.shards, "queries": reading.queries, "report": reading.report}


def check_files(reading: Reading, *, may_be_logs: bool = False) -> None:
    """Raise if there is something that workers cannot read."""
    if getattr(reading, "from_clicks", False) and not may_be_logs:
        raise ValueError("logs of clicks are read as a whole: convert them to Parquet or a store for a cluster")
    if "-" in reading.files:
        raise ValueError("the files are read by every worker: standard input cannot be one")
