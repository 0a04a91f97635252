"""Commands on a Dask cluster."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.options.reading import Reading
from perceptrank.cli.terminal.streams import complain, say
from perceptrank.cli.terminal.tables import ProgressBar, plain, show

if TYPE_CHECKING:
    from perceptrank.distributed.learning import Progress

CONNECTS = 30  # seconds that a scheduler has to answer


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Options of a cluster."""

    dask: Annotated[bool, typer.Option("--dask", help="Use Dask, on several processes of this machine.")] = False
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Use the Dask cluster at this address, such as tcp://host:8786; its workers must find the files under "
            "the same names.",
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes for --dask; by default one per processor.")
    ] = None

    @property
    def is_used(self) -> bool:
        """Tell if work is to be done by Dask."""
        return self.dask or self.scheduler is not None

    def check(self) -> None:
        """Raise if options are given that apply to a cluster only."""
        names = [field.name for field in fields(self) if field.name not in ("dask", "scheduler")]
        needless = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]
        if not self.is_used and needless:
            raise ValueError(f"{', '.join(needless)} can only be given with --dask or --scheduler")
        if self.scheduler is not None and self.workers is not None:
            raise ValueError("--workers applies to --dask only: the cluster of a --scheduler has its own workers")

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Connect to the cluster, or start one."""
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
class Sharing(Cluster):
    """Options of learning from shards."""

    epochs: Annotated[int | None, typer.Option(min=1, help="Number of passes over all shards; by default 5.")] = None
    shards: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of shards, with Dask: small files are joined, stores and text are split. By default each file "
            "is a shard.",
        ),
    ] = None
    keep_epochs: Annotated[
        Path | None,
        typer.Option(
            help="Folder to save the model to after each epoch, with Dask; the same command continues from there."
        ),
    ] = None


def check_files(reading: Reading) -> None:
    """Raise if there is something that workers cannot read."""
    if "-" in reading.files:
        raise ValueError("the files are read by every worker: standard input cannot be one")


def learn_from_shards(
    learner: "pr.Learner",
    measures: "list[pr.Measure]",
    reading: Reading,
    sharing: Sharing,
    trace: Path | None,
    saved: str | None,
    *,
    as_json: bool,
) -> "pr.Trace":
    """Learn from files on a cluster, keep the result, and return what was recorded, epoch after epoch."""
    from perceptrank.distributed.learning import learn
    from perceptrank.distributed.mixing import check_mixable

    check_files(reading)
    check_mixable(learner)
    first, start = learner.n_queries, time.perf_counter()
    options = reading.options() | ({"names": learner.model.needed_names} if learner.model.needed_names else {})
    epochs = sharing.epochs or 5
    with sharing.client() as client, ProgressBar("learning") as bar:

        def tell(progress: "Progress") -> None:
            bar(progress.epoch * progress.shards + progress.done, progress.epochs * progress.shards)
            if progress.done == progress.shards:
                means = ", ".join(f"{name} {mean:.4f}" for name, mean in progress.means.items())
                complain(f"epoch {progress.epoch + 1} of {epochs}: {progress.shards} shards; the last one had {means}")

        learned = learn(
            learner,
            reading.files,
            client,
            epochs=epochs,
            measures=measures,
            shards=sharing.shards,
            checkpoint=sharing.keep_epochs,
            progress=tell,
            **options,
        )
    whole = pr.Trace.concatenate(of_shard for epoch in learned.traces for of_shard in epoch)
    if trace is not None:
        whole.save(trace)
    if saved is not None:
        learner.save(saved)
    rows = []
    for number, epoch in enumerate(learned.traces):
        joined = pr.Trace.concatenate(epoch)
        row: dict[str, Any] = {"epoch": number + 1}
        row |= {str(measure): plain(joined.mean(measure)) for measure in joined.measures}
        rows.append(row | {"shards": len(epoch), "queries": len(joined), "updates": joined.n_updates})
    seconds, n_queries = time.perf_counter() - start, learner.n_queries - first
    extra = {
        "model": repr(learner),
        "queries": n_queries,
        "epochs": epochs,
        "seconds": round(seconds, 3),
        "saved": saved,
    }
    show(rows, title="Ranked, measured, then learned from, shard by shard", as_json=as_json, extra=extra)
    if not as_json:
        kept = f"; saved to {saved}" if saved is not None else "; not saved (--save FILE)"
        say(f"{n_queries:,} queries in {seconds:.1f} s{kept}")
    return whole
