"""``erase review``."""

import os
import shlex
import webbrowser
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from erase.cli import options
from erase.cli.output import Output, labels_are
from erase.cli.startup import starting
from erase.display import review_command
from erase.errors import EraseError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from erase.audit import Audit
    from erase.review import Reviews
    from erase.review.session import Plan


@options.takes_tables
def review_labels(
    graph: options.Graph,
    *,
    db: Annotated[
        Path | None,
        typer.Option(
            help="Database of the decisions; made where it is missing.",
            show_default="out/GRAPH-review/reviews.sqlite",
        ),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Start from this saved audit.", show_default="audit GRAPH"
        ),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="NAME", help="Your name.", show_default="asked in the browser")
    ] = "",
    budget: Annotated[int, options.count("Decisions you plan, for the progress bar.")] = 100,
    every: Annotated[
        int, typer.Option(min=0, help="Redo the audit after this many decisions; 0 never does.")
    ] = 20,
    strategy: Annotated[
        Literal["mixed", "gain", "suspicious", "random"],
        typer.Option(help="Which labels come first; see erase.next_to_review."),
    ] = "mixed",
    random_share: Annotated[
        float,
        options.share("Share of labels drawn at random, which keep the estimate unbiased."),
    ] = 0.2,
    double_share: Annotated[float, options.share("Share of labels that two reviewers see.")] = 0.1,
    all_labels: Annotated[
        bool,
        typer.Option("--all-labels", help="Ignore the splits: review labels of test nodes too."),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port of the page.", show_default="8765, or a free one"
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Any other than 127.0.0.1 lets other machines in, without "
            "encryption; it needs --token."
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            help="Secret of the start address, at least 16 characters.", show_default="a random one"
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open the browser.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write the results and stop: FILE.csv has the labels, decisions.csv the "
            "decisions, FILE.npz the graph with its trusted labels.",
        ),
    ] = None,
    write_back: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write your nodes table with its label column corrected, and stop. FILE may be "
            "the table itself.",
        ),
    ] = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    safe_csv: options.SafeCsv = False,
    quiet: options.Quiet = False,
    tables: dict[str, Any],
) -> None:
    """Confirm or correct labels in the browser.

    Audits the labels, starts a server on this machine, and opens a page that shows one doubtful
    label at a time with its evidence. Decisions are stored at once; the same command continues.
    `erase audit`, `fit` and `bench` use them with --reviews.
    """
    with starting():
        from erase.data.splits import without_splits
        from erase.review import Reviews
        from erase.review.exports import check_export, export_tables
        from erase.review.session import Plan

    output = Output(quiet=quiet)
    data, name = options.load_labelled(graph, tables)
    if all_labels:
        data = without_splits(data)
    db = db or Path("out") / f"{name}-review" / "reviews.sqlite"
    if export is not None:
        check_export(Path(graph), export)
    if export is not None or write_back is not None:
        if not db.exists():
            raise EraseError(
                "a database of decisions", f"no file {str(db)!r}", "Name it with --db."
            )
        with Reviews(db, data) as reviews:
            if export is not None:
                export_tables(reviews, data, export, safe_csv=safe_csv)
                output.message(f"The results are in {export}.")
            if write_back is not None:
                count = _write_back(reviews, data, graph, write_back, tables)
                output.message(f"{labels_are(count)} corrected in {write_back}.")
        return
    _check_access(host, token)
    need_server()
    plan = Plan(strategy, random_share, double_share, every, budget)
    with Reviews(db, data) as reviews, reviews.serve_alone():
        reviews.start_order(seed)
        _serve(
            reviews,
            data,
            graph,
            name,
            tables,
            output,
            plan=plan,
            saved=audit,
            seed=seed,
            device=device,
            listen=(host, port),
            token=token,
            by=by,
            browser=not no_browser,
            safe_csv=safe_csv,
            flags=["--all-labels"] if all_labels else [],
        )


def need_server() -> None:
    """Raise an EraseError where the server's packages are not installed."""
    from importlib.util import find_spec

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise EraseError(
            "starlette and uvicorn, to serve the page",
            "an installation without them",
            "Run pip install 'graph-erase[review]'.",
        )


def _check_access(host: str, token: str | None) -> None:
    if host not in ("127.0.0.1", "localhost", "::1") and token is None:
        raise EraseError(
            "--token SECRET with an address that other machines reach",
            f"--host {host} alone",
            "Add a token, or leave out --host.",
        )
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise EraseError(
            "--token of at least 16 plain characters",
            f"{len(token)} characters",
            "Use a longer one.",
        )


def _serve(
    reviews: "Reviews",
    data: "Data",
    graph: str,
    name: str,
    tables: dict[str, Any],
    output: Output,
    *,
    plan: "Plan",
    saved: Path | None,
    seed: int,
    device: str,
    listen: tuple[str, int | None],
    token: str | None,
    by: str,
    browser: bool,
    safe_csv: bool,
    flags: list[str],
) -> None:
    """Audit, and serve the page until Ctrl-C.

    `flags` are options that the command that exports the decisions needs too.
    """
    from erase.audit import DEFAULT_METHOD, audit, audit_params
    from erase.audit.storage import save_audit
    from erase.data.datasets import dataset_name
    from erase.methods import build_method
    from erase.review.evidence import details_of
    from erase.review.exports import usual_exports
    from erase.review.server import check_address, served
    from erase.review.session import Session

    check_address(*listen)  # before an audit that takes minutes
    changes = audit_params(DEFAULT_METHOD) | {"seed": seed, "device": device}
    model = build_method(DEFAULT_METHOD, dataset=dataset_name(graph), **changes)
    model.check_params()
    folder = Path(graph) if dataset_name(graph) is None and Path(graph).is_dir() else None
    details = details_of(data, folder, tables)  # before the audit: the page follows it at once
    file = reviews.path.with_name(f"{reviews.path.stem}-audit.safetensors")
    first = _saved_audit(saved or file, data, asked=saved is not None)
    if first is None:
        output.message("Auditing the labels …")
        first = audit(reviews.apply(data), method=model, seed=seed, progress=not output.quiet)
        save_audit(first, file)

    def again() -> "Audit":
        found = audit(reviews.apply(data), method=model, seed=seed)
        save_audit(found, file)
        return found

    session = Session(
        first,
        reviews,
        plan,
        details=details,
        reaudit=again,
        name=name,
    )
    exports = usual_exports(reviews, data, folder, tables)
    host, port = listen
    try:
        with served(
            session,
            exports,
            by=by,
            host=host,
            port=port,
            token=token or "",
            safe_csv=safe_csv,
        ) as url:
            output.message(f"Review at {url}\nCtrl-C ends it; decisions are in {reviews.path}.")
            if browser:
                webbrowser.open(url)
            Event().wait()
    except KeyboardInterrupt:
        pass
    path, count = str(reviews.path), len(reviews.votes())
    export = review_command(graph, tables, *flags, "--db", path, "--export", "labels.csv")
    output.message(
        f"\n{labels_are(count)} reviewed. Use them with --reviews {shlex.quote(path)}, or write "
        f"them with `{export}`."
    )
    if session.is_auditing:  # torch aborts where its thread is cut off; all decisions are stored
        reviews.close()  # in one file, without a log beside it
        os._exit(0)


def _saved_audit(path: Path, data: "Data", *, asked: bool) -> "Audit | None":
    """Return the audit in a file, if it is one of this graph."""
    from erase.audit import load_audit
    from erase.data.task import NodeTask

    if not path.exists() and not asked:
        return None
    try:
        found = load_audit(path)
    except EraseError:  # our own file, cut short or of another version: it is made again
        if asked:
            raise
        return None
    task = NodeTask.of(data)
    same = found.class_names == task.class_names and len(found.given) == task.num_nodes
    if same and bool((found.given == task.y.numpy()).all()):
        return found
    if asked:
        raise EraseError(
            "an audit of this graph",
            f"{str(path)!r}, the audit of another graph",
            "Leave out --audit.",
        )
    return None


def _write_back(
    reviews: "Reviews", data: "Data", graph: str, target: Path, tables: dict[str, Any]
) -> int:
    from erase.data.datasets import dataset_name
    from erase.review.exports import write_labels_back

    if dataset_name(graph) is not None:
        raise EraseError(
            "--write-back with a folder of tables", f"the dataset {graph!r}", "Use --export."
        )
    return write_labels_back(reviews, data, Path(graph), target, tables)
