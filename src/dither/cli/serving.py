"""Commands for whoever runs a collection: `dither serve` takes reports over HTTP, `dither campaign` looks after it."""

import re
import time
from typing import TYPE_CHECKING, Any

import click

from dither.cli.common import facts, json_option, read_bytes, say, several, show, tell
from dither.display.table import TextTable
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.collect.store import Campaign, Store

_HOURS = {"h": 1, "d": 24, "w": 24 * 7}
_DURATION = re.compile(r"([0-9]+) ?([hdw])")
_STORE = "A folder, which is made if it is not there, or postgresql://host/database."

_ACTIONS = ("list", "open", "close", "delete", "token", "tokens", "revoke", "queries", "tally", "backup")


def _store_option(command: Any) -> Any:
    return click.option("--store", "place", metavar="PLACE", default="./store", show_default=True, help=_STORE)(command)


def _hours(text: str | None, option: str) -> int | None:
    """A duration as in 12h, 30d or 4w."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ParameterError(f"write {option} as 12h, 30d or 4w")
    return int(found[1]) * _HOURS[found[2]]


@click.command()
@click.argument("plan_files", metavar="PLAN...", nargs=-1, type=click.Path(dir_okay=False))
@_store_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 for all.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@click.option("--token-file", metavar="FILE", help="Tokens for analysts, one on a line; without any, one is made.")
@click.option("--client-token-file", metavar="FILE", help="Tokens for clients: then only those send reports.")
@click.option(
    "--origin", "origins", multiple=True, metavar="URL", help="A page's origin whose scripts may send reports."
)
@click.option("--closes-in", metavar="TIME", help="The campaigns of these plans expire after so long: 12h, 30d, 4w.")
@click.option("--keep-reports", metavar="TIME", help="Keep raw reports for so long after they are counted; else none.")
@click.option("--most-bytes", type=click.IntRange(1024), help="The largest request that is taken.")
@click.option("--most-open", type=click.IntRange(1), default=4096, show_default=True, help="Requests at the same time.")
@click.option("--rate", type=float, help="Requests a second, of all together.")
@click.option("--peer-rate", type=float, help="Requests a second of one peer; no address is kept.")
@click.option(
    "--least-reports",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="New reports that a new estimate has.",
)
@click.option("--tls-certificate", metavar="FILE", help="Serve HTTPS.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate.")
@click.option("--keys", metavar="FOLDER", help="Keys that open sealed reports; in the store, if it is a folder.")
@click.option("--shuffler", metavar="URL", help="Where the page for participants sends sealed reports.")
@click.option("--allow-dear", is_flag=True, help="Collect for plans that take very long to count, too.")
def serve(
    plan_files: tuple[str, ...],
    place: str,
    host: str,
    port: int,
    token_file: str | None,
    client_token_file: str | None,
    origins: tuple[str, ...],
    closes_in: str | None,
    keep_reports: str | None,
    most_bytes: int | None,
    most_open: int,
    rate: float | None,
    peer_rate: float | None,
    least_reports: int,
    tls_certificate: str | None,
    tls_key: str | None,
    keys: str | None,
    shuffler: str | None,
    allow_dear: bool,
) -> None:
    """Take reports over HTTP, store them durably, count each once, and serve live results.

    Campaigns that are in the store already are served too. / is a page of live results, for whoever has a token of an
    analyst, and /join one for the people who are asked. Stop it with Ctrl-C, or SIGTERM.

    \b
    dither serve plan.json --store ./store
    dither serve plan.json second.json --store ./store --port 8080 --origin https://www.example.org
    curl -H "Authorization: Bearer $(cat store/analyst.token)" localhost:8080/v1/plans/HASH/estimate
    """
    from dither.collect.collector import Collector
    from dither.collect.http_server import Endpoint
    from dither.collect.sealing_keys import key_folder
    from dither.collect.server import first_token, open_store
    from dither.collect.server import serve as run
    from dither.collect.service import ServiceOptions
    from dither.collect.store import ANALYST, CLIENT
    from dither.wire import MOST_BYTES

    documents = [read_bytes(path, "plan", "; dither plan ... -o plan.json writes one") for path in plan_files]
    expiry, kept = _hours(closes_in, "--closes-in"), _hours(keep_reports, "--keep-reports")
    options = ServiceOptions(
        origins,
        most_bytes or MOST_BYTES,
        open_requests=most_open,
        requests_per_second=rate,
        peer_requests_per_second=peer_rate,
        least_reports=least_reports,
        tls=tls_certificate is not None,
        keys=keys or key_folder(place),
        shuffler=shuffler,
    )
    store = open_store(place, collects=True)
    try:
        for role, path in ((ANALYST, token_file), (CLIENT, client_token_file)):
            _add_tokens(store, role, path)
        written = first_token(store, place)
        collector = Collector(store)
        for document in documents:
            number = collector.add(document, allow_dear=allow_dear).number
            if expiry is not None:
                store.change_campaign(number, closes=int(time.time()) + 3600 * expiry)
            if kept is not None:
                store.keep_reports(number, kept)
        collector.reload()

        def ready(address: str) -> None:
            for running in collector.running.values():
                tell(f"collecting for plan {running.plan.fingerprint}: {running.plan.title}")
            if written:
                tell(f"a token for analysts is in {written}: hand it over, and remove the file")
            tell("pages: / has live results, for whoever has a token; /join is for those who are asked")
            say(address)

        run(collector, Endpoint(host, port, tls_certificate, tls_key), options, ready=ready)
    except KeyboardInterrupt:
        tell("stopped: all that was acknowledged is stored")
    finally:
        store.close()


def _add_tokens(store: "Store", role: str, path: str | None) -> None:
    from dither.collect.store import Token
    from dither.collect.tokens import checked_token, token_digest

    if path is None:
        return
    for line in read_bytes(path, "token").decode("utf-8", "replace").split():
        store.add_token(Token(token_digest(checked_token(line)), role, None, None))


# Looking after it --------------------------------------------------------------------------------------------------


@click.command()
@click.argument("action", type=click.Choice(_ACTIONS))
@click.argument("plan", metavar="[HASH]", required=False)
@_store_option
@click.option(
    "--role",
    type=click.Choice(["analyst", "client", "shuffler"]),
    default="analyst",
    show_default=True,
    help="Of a token.",
)
@click.option("--expires-in", metavar="TIME", help="How long a token is good for: 12h, 30d, 4w.")
@click.option("-o", "--output", metavar="FILE", help="Where a tally or a backup is written to.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@json_option()
def campaign(
    action: str,
    plan: str | None,
    place: str,
    role: str,
    expires_in: str | None,
    output: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Look after the campaigns in a store: list, open, close or delete them, make and revoke tokens.

    HASH is that of the plan, or its first letters; to revoke, that of the token, which tokens lists. A collector that
    runs on the store notices within a second.

    \b
    dither campaign list --store ./store
    dither campaign close 9c56 --store ./store
    dither campaign token 9c56 --role client --expires-in 30d
    dither campaign tokens
    dither campaign revoke 5f0c2a9e81d4
    dither campaign tally 9c56 -o all.tally
    dither campaign backup -o copy.db
    """
    from dither.collect.server import open_store
    from dither.collect.store import CLOSED, OPEN

    store = open_store(place)
    try:
        if action == "list":
            _list(store, as_json)
        elif action == "backup":
            store.backup(_needed(output))
            tell(f"wrote {output}")
        elif action == "queries":
            _queries(store, None if plan is None else _named(store, plan).number, as_json)
        elif action == "token":
            _token(store, plan, role, _hours(expires_in, "--expires-in"))
        elif action == "tokens":
            _tokens(store, None if plan is None else _named(store, plan).number, as_json)
        elif action == "revoke":
            _revoke(store, plan)
        else:
            chosen = _named(store, plan)
            if action in ("open", "close"):
                store.change_campaign(chosen.number, state=OPEN if action == "open" else CLOSED)
                tell(f"plan {chosen.plan[:12]} is {'open' if action == 'open' else 'closed'}")
            elif action == "tally":
                _tally(store, chosen, _needed(output))
            else:
                if not yes:
                    click.confirm(
                        f"Remove all that is stored of plan {chosen.plan[:12]}, for good?", abort=True, err=True
                    )
                store.delete_campaign(chosen.number)
                tell(f"plan {chosen.plan[:12]} is deleted; backups still have it")
    finally:
        store.close()


def _needed(output: str | None) -> str:
    if output is None:
        raise click.UsageError("Name a file with -o.")
    return output


def _named(store: "Store", plan: str | None) -> "Campaign":
    """The campaign whose hash begins so."""
    if not plan:
        raise click.UsageError("Name the hash of a plan, or its first letters: dither campaign list has them.")
    found = [each for each in store.campaigns() if each.plan.startswith(plan.lower())]
    if len(found) != 1:
        raise ParameterError(
            f"{several(len(found), 'plan')} in this store begin so: dither campaign list has all of them"
        )
    return found[0]


def _list(store: "Store", as_json: bool) -> None:
    rows = []
    for each in store.campaigns():
        counted = store.counted(each.number)
        reports = sum(tally.reports for tally in counted.tallies.values())
        state = "open" if each.is_open(time.time()) else "closed"
        rows.append((each.plan if as_json else each.plan[:12], state, counted.batches, reports, counted.waiting))
    _show_rows(("plan", "state", "batches", "reports counted", "batches waiting"), rows, as_json)
    if not rows and not as_json:
        tell("there are no campaigns in this store; dither serve plan.json begins one")


def _show_rows(names: tuple[str, ...], rows: list[tuple], as_json: bool) -> None:
    if as_json:
        facts([dict(zip((name.replace(" ", "_") for name in names), row, strict=True)) for row in rows])
    elif rows:
        show(TextTable(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))


def _queries(store: "Store", number: int | None, as_json: bool) -> None:
    from dither.collect.tokens import token_name

    plans = {each.number: each.plan for each in store.campaigns()}
    rows = [
        (
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)),
            plans.get(each, "")[:12],
            kind,
            detail,
            token_name(token or b""),
        )
        for moment, each, kind, detail, token in store.queries(number)
    ]
    _show_rows(("time", "plan", "kind", "detail", "token"), rows, as_json)


def _token(store: "Store", plan: str | None, role: str, hours: int | None) -> None:
    from dither.collect.store import Token
    from dither.collect.tokens import new_token, token_digest, token_name

    number = None if plan is None else _named(store, plan).number
    secret = new_token()
    digest = token_digest(secret)
    store.add_token(Token(digest, role, number, None if hours is None else int(time.time()) + 3600 * hours))
    say(secret)
    tell(f"this is shown once: the store has only its hash. dither campaign revoke {token_name(digest)} takes it back")


def _tokens(store: "Store", number: int | None, as_json: bool) -> None:
    from dither.collect.store import REVOKED
    from dither.collect.tokens import token_name

    plans, now, rows = {each.number: each.plan for each in store.campaigns()}, time.time(), list[tuple]()
    for each in store.tokens():
        if number is not None and each.campaign not in (None, number):
            continue
        state = "good" if each.expires is None or now < each.expires else "expired"
        until = "" if not each.expires else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each.expires))
        plan = "all" if each.campaign is None else plans.get(each.campaign, "")[:12]
        rows.append((token_name(each.digest), each.role, plan, "revoked" if each.expires == REVOKED else state, until))
    _show_rows(("token", "role", "plan", "state", "expires"), rows, as_json)


def _revoke(store: "Store", name: str | None) -> None:
    from dither.collect.tokens import token_name

    if not name:
        raise click.UsageError("Name a token: dither campaign tokens has them.")
    found = [each for each in store.tokens() if each.digest.hex().startswith(name.lower())]
    if len(found) != 1:
        raise ParameterError(
            f"{several(len(found), 'token')} in this store begin so: dither campaign tokens has all of them"
        )
    store.revoke_token(found[0].digest)
    left = [each for each in store.tokens() if each.role == found[0].role and each.expires is None]
    tell(f"token {token_name(found[0].digest)} is revoked")
    if not left:
        tell(f"note: no token for the role {found[0].role} is good for ever; dither campaign token makes one")


def _tally(store: "Store", chosen: "Campaign", output: str) -> None:
    from dither.core.atomic_write import write_bytes

    tallies = store.counted(chosen.number).tallies
    if len(tallies) != 1:
        raise ParameterError("this campaign has no reports yet, or several rounds, each with a tally of its own")
    (tally,) = tallies.values()
    write_bytes(output, tally.to_bytes())
    tell(f"wrote {output}: {several(tally.reports, 'report')}")
