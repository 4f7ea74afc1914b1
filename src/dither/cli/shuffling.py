"""Commands for shuffled collections: `dither shuffle` mixes sealed reports, `dither keys` makes their keys."""

import time

import click

from dither.cli.common import facts, json_option, read_bytes, say, several, show, tell
from dither.display.table import TextTable
from dither.errors import ParameterError


@click.command()
@click.option("--to", metavar="URL", help="The collector that batches are forwarded to.")
@click.option(
    "--batch",
    type=click.IntRange(2),
    default=10_000,
    show_default=True,
    help="How many users a batch has at least; more, if the plan counts on more.",
)
@click.option(
    "--store", "place", metavar="FOLDER", default="./shuffler", show_default=True, help="Where messages wait."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 for all.")
@click.option("--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="0 takes a free one.")
@click.option("--origin", "origins", multiple=True, metavar="URL", help="A page's origin whose scripts may send.")
@click.option("--token-file", metavar="FILE", help="A token for the role shuffler, if the collector wants one.")
@click.option(
    "--refresh",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="Seconds between questions to the collector: whether campaigns are open, and which keys are in use.",
)
@click.option("--rate", type=float, help="Requests a second, of all together.")
@click.option("--peer-rate", type=float, help="Requests a second of one peer; no address is kept.")
@click.option("--tls-certificate", metavar="FILE", help="Serve HTTPS.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate.")
@click.option("--allow-http", is_flag=True, help="Forward over plain HTTP to another machine, too.")
@click.option("--status", is_flag=True, help="Print how many messages wait and were forwarded, and end.")
@json_option()
def shuffle(
    to: str | None,
    batch: int,
    place: str,
    host: str,
    port: int,
    origins: tuple[str, ...],
    token_file: str | None,
    refresh: float,
    rate: float | None,
    peer_rate: float | None,
    tls_certificate: str | None,
    tls_key: str | None,
    allow_http: bool,
    status: bool,
    as_json: bool,
) -> None:
    """Mix sealed reports: forward them to the collector in batches, without names, order or times.

    Run it apart from the collector, best by somebody else: who has both sees whose report is whose. It sees ciphertexts
    only. A batch is forwarded when it is full, never smaller; what is left when the campaign closes is dropped and
    counted. Stop it with Ctrl-C, or SIGTERM: what it acknowledged is on the disk, and is forwarded by the next start.

    \b
    dither shuffle --to https://collect.example.org --batch 10000
    dither shuffle --status --store ./shuffler
    """
    from dither.collect.http_server import Endpoint
    from dither.collect.shuffler import ShufflerOptions
    from dither.collect.shuffler import shuffle as run
    from dither.collect.shuffler_store import ShufflerStore

    if status:
        _status(place, as_json)
        return
    if to is None:
        raise click.UsageError("Name the collector with --to.")
    token = None if token_file is None else read_bytes(token_file, "token").decode("utf-8", "replace").strip()
    options = ShufflerOptions(
        to,
        batch,
        Endpoint(host, port, tls_certificate, tls_key),
        origins,
        token,
        refresh,
        allow_http=allow_http,
        requests_per_second=rate,
        peer_requests_per_second=peer_rate,
    )

    def ready(address: str) -> None:
        tell(f"batches of {batch:,} or more go to {to}")
        say(address)

    with ShufflerStore(place, batch) as store:
        run(store, options, ready=ready)


def _status(place: str, as_json: bool) -> None:
    from dither.collect.shuffler_store import read_figures

    found = read_figures(place)
    if as_json:
        facts([{"plan": plan, **figures._asdict()} for plan, figures in found.items()])
        return
    if not found:
        tell("no message has arrived yet")
        return
    names = ("taken", "waiting", "on_their_way", "forwarded", "batches")
    columns = {name.replace("_", " "): [getattr(each, name) for each in found.values()] for name in names}
    dropped = [sum(each.dropped.values()) for each in found.values()]
    show(TextTable({"plan": [plan[:12] for plan in found], **columns, "dropped": dropped}))
    for plan, each in found.items():
        for reason, count in each.dropped.items():
            tell(f"plan {plan[:12]}: {several(count, 'message')} dropped: {reason}")


@click.command()
@click.argument("action", type=click.Choice(["new", "list", "activate", "expire"]))
@click.argument("name", metavar="[ID]", required=False)
@click.option("--store", "place", metavar="PLACE", default="./store", show_default=True, help="The collector's store.")
@click.option("--keys", "folder", metavar="FOLDER", help="Where the keys are, if not in the folder of the store.")
@click.option("--pending", is_flag=True, help="Of a new key: it opens, and is not published yet.")
@click.option("--grace", type=click.FloatRange(0), help="Of an expired key: hours in which it still opens; else 168.")
@json_option()
def keys(
    action: str,
    name: str | None,
    place: str,
    folder: str | None,
    pending: bool,
    grace: float | None,
    as_json: bool,
) -> None:
    """Make, list and expire the keys of a collector that reports are sealed to.

    A pending key opens reports, and is not published. Devices seal to an active one. An expired one is not published
    any more, opens for some hours, and then its private half is erased. A collector that runs notices within a second.
    ID is that of a key, or its first letters.

    \b
    dither keys new --store ./store
    dither keys list --store ./store
    dither keys expire 9c56 --store ./store --grace 24
    """
    from dither.collect.sealed_reports import hpke_suite
    from dither.collect.sealing_keys import ACTIVE, GRACE_HOURS, PENDING, KeyFolder, key_folder, new_key

    where = folder or key_folder(place)
    if where is None:
        raise ParameterError("this store is no folder: say with --keys where the keys are")
    found = KeyFolder(where)
    if action == "list":
        chosen = found.stored()
    elif action == "new":
        hpke_suite()  # or what to install
        chosen = [found.add(new_key(PENDING if pending else ACTIVE))]
    elif not name:
        raise click.UsageError("Name a key: dither keys list has them.")
    elif action == "activate":
        chosen = [found.activate(name)]
    else:
        chosen = [found.expire(name, GRACE_HOURS if grace is None else grace)]
    rows = [{**key.published(), "opens": key.opens(time.time())} for key in chosen]
    if as_json:
        facts(rows)
    elif rows:
        columns = ("id", "state", "opens")
        show(TextTable({column: [row[column] for row in rows] for column in columns}))
    else:
        tell("there are no keys yet; dither keys new makes one")
    active = [key for key in found.stored() if key.state == ACTIVE]
    if action != "list" and len(active) != 1:
        tell(f"{len(active)} keys are active: devices seal to one, so have one")
