"""A real collector on a port: what it answers, to whom, and what is wrong with what it is sent."""

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import dither
from cli.cases import MARKER, done, facts, refused
from collect.collectors import (
    Served,
    batches,
    other_plan,
    ranges_plan,
    records,
    serving,
    small_plan,
    started,
    waited_for,
)
from dither.collect import SqliteStore
from dither.collect.openapi import openapi_document
from dither.collect.problems import PROBLEMS
from dither.collect.tokens import token_digest
from dither.wire import CONTENT_TYPE, BatchFormat

ORIGIN = "https://www.example.org"
PLANS = "/v1/plans"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("collector") / "store"


@pytest.fixture(scope="module")
def served(place):
    with serving(place, small_plan(), other_plan(), ranges_plan(), options=("--origin", ORIGIN)) as found:
        yield found


@pytest.fixture(scope="module")
def analyst(served, place) -> dict[str, str]:
    return {"authorization": f"Bearer {(place / 'analyst.token').read_text().strip()}"}


def estimate_of(served: Served, plan: dither.Plan, headers: dict[str, str], reports: int) -> Any:
    """The estimate, once so many reports are counted."""
    for _ in range(100):
        status, found = served.json("GET", f"{PLANS}/{plan.fingerprint}/estimate", None, headers)
        assert status == 200, found
        if found["reports"] == reports:
            return found
        time.sleep(0.2)
    raise AssertionError("what was sent is not counted")


def test_plans_are_listed_and_served_to_the_byte(served):
    status, listed = served.json("GET", PLANS)
    assert status == 200
    assert [each["plan"] for each in listed] == [
        plan.fingerprint for plan in (small_plan(), other_plan(), ranges_plan())
    ]
    status, headers, body = served.request("GET", listed[0]["url"])
    assert (status, body.decode()) == (200, small_plan().to_json())
    assert dither.Plan.from_json(body.decode()).fingerprint == small_plan().fingerprint
    assert headers["content-type"] == "application/json"


def test_from_reports_to_live_estimates(served, analyst):
    """In batches, as single reports, and as JSON; each batch sent twice."""
    plan = small_plan()
    form = BatchFormat(plan)
    bodies = [*batches(plan, 300, 100), *batches(plan, 20, 1)]
    for place, body in enumerate(bodies):
        reports = 100 if place < 3 else 1
        assert served.send(plan, body, f"k{place}") == (200, {"accepted": reports, "rejected": {}, "duplicate": False})
        assert served.send(plan, body, f"k{place}") == (200, {"accepted": reports, "rejected": {}, "duplicate": True})
    text = form.to_json(batches(plan, 7, 7)[0])
    status, answer = served.send(plan, text.encode(), "json", content_type="application/json; charset=utf-8")
    assert (status, answer["accepted"]) == (200, 7)
    found = estimate_of(served, plan, analyst, 327)
    tally = form.tally(map(form.check, [*bodies, form.from_json(text)]))
    from dither.page.export import to_dict

    expected = to_dict(plan, plan.estimate(tally))
    assert {name: found[name] for name in expected} == json.loads(json.dumps(expected))


def test_conditions_are_answered_and_noted(served, analyst, place):
    plan = ranges_plan()
    table = {"age": [i % 16 for i in range(500)], "size": [i % 16 for i in range(500)]}
    assert served.send(plan, plan.pack(plan.randomize(table)), "all")[0] == 200
    estimate_of(served, plan, analyst, 500)
    path, condition = f"{PLANS}/{plan.fingerprint}/query", "age between 2 and 9 and size < 8"
    asked = json.dumps({"conditions": [condition]}).encode()
    headers = {**analyst, "content-type": "application/json"}
    status, found = served.json("POST", path, asked, headers)
    assert (status, found["answers"][0]["condition"], found["reports"]) == (200, condition, 500)
    status, problem = served.json("POST", path, json.dumps({"conditions": ["age <"]}).encode(), headers)
    assert (status, problem["title"]) == (422, PROBLEMS["refused"].title)
    for wrong in (b"", b"{", b"[]", b'{"conditions": []}', b'{"conditions": ["a"], "more": 1}', b"\xff"):
        assert served.json("POST", path, wrong, headers)[0] == 400
    assert served.json("POST", path, asked, {**headers, "content-type": "text/plain"})[0] == 415
    other = f"{PLANS}/{small_plan().fingerprint}/query"
    assert served.json("POST", other, asked, headers)[0] == 422
    with SqliteStore(place) as store:
        log = store.queries()
    assert ("query", condition) in {(kind, detail) for _, _, kind, detail, _ in log}
    assert {token for *_, token in log} == {token_digest(analyst["authorization"][7:])}


def test_results_are_for_analysts(served, analyst):
    path = f"{PLANS}/{small_plan().fingerprint}/estimate"
    for headers, kind in (
        ({}, "no-token"),
        ({"authorization": "Basic abc"}, "no-token"),
        ({"authorization": "Bearer wrong"}, "bad-token"),
        ({"authorization": "Bearer"}, "no-token"),
    ):
        status, told, body = served.request("GET", path, None, headers)
        assert (status, json.loads(body)["title"]) == (401, PROBLEMS[kind].title)
        assert told["www-authenticate"] == "Bearer"
    assert served.request("GET", path, None, analyst)[0] == 200


def test_tokens_expire_and_are_for_one_role_and_one_campaign(served, place, analyst):
    first, second = small_plan().fingerprint, other_plan().fingerprint
    with SqliteStore(place) as store:
        from dither.collect.store import ANALYST, CLIENT, Token

        numbers = {each.plan: each.number for each in store.campaigns()}
        store.add_token(Token(token_digest("expired"), ANALYST, None, int(time.time()) - 1))
        store.add_token(Token(token_digest("of-first"), ANALYST, numbers[first], None))
        store.add_token(Token(token_digest("sender"), CLIENT, numbers[second], None))
    time.sleep(2.5)
    for token, plan, expected in (
        ("expired", first, 401),
        ("of-first", first, 200),
        ("of-first", second, 403),
        ("sender", second, 403),
    ):
        headers = {"authorization": f"Bearer {token}"}
        assert served.request("GET", f"{PLANS}/{plan}/estimate", None, headers)[0] == expected
    body = batches(other_plan(), 1, 1)[0]
    assert served.send(other_plan(), body, "a")[0] == 401
    assert served.send(other_plan(), body, "a", authorization=analyst["authorization"])[0] == 403
    assert served.send(other_plan(), body, "a", authorization="Bearer sender")[0] == 200
    assert served.send(small_plan(), batches(small_plan(), 1, 1)[0], "open")[0] == 200  # which needs none


def test_a_token_that_is_revoked_opens_nothing_and_leaves_the_door_shut(served, place, analyst):
    """Also where it was the last one: a campaign that asked its clients for tokens goes on asking."""
    from dither.collect.store import CLIENT, Token

    plan, body = other_plan(), batches(other_plan(), 1, 1)[0]
    with SqliteStore(place) as store:
        number = next(each.number for each in store.campaigns() if each.plan == plan.fingerprint)
        store.add_token(Token(token_digest("a-client-of-mine"), CLIENT, number, None))
    analysts = done("campaign", "token", "--store", str(place)).stdout.strip()
    sender, reader = ({"authorization": f"Bearer {token}"} for token in ("a-client-of-mine", analysts))
    waited_for(lambda: served.request("GET", f"{PLANS}/{plan.fingerprint}/estimate", None, reader)[0] == 200)
    assert served.send(plan, body, "before", **sender)[0] == 200
    for token in ("a-client-of-mine", analysts):
        done("campaign", "revoke", token_digest(token).hex()[:12], "--store", str(place))
    waited_for(lambda: served.send(plan, body, "before", **sender)[0] == 401)
    assert served.send(plan, body, "before", **sender)[1]["title"] == PROBLEMS["revoked-token"].title
    waited_for(lambda: served.request("GET", f"{PLANS}/{plan.fingerprint}/estimate", None, reader)[0] == 401)
    assert served.send(plan, body, "without")[0] == 401
    assert served.request("GET", f"{PLANS}/{plan.fingerprint}/estimate", None, analyst)[0] == 200
    with SqliteStore(place) as store:
        store.add_token(Token(token_digest(analysts), "analyst", None, None))  # as a file of tokens at the next start
    states = {row["token"]: row["state"] for row in facts("campaign", "tokens", "--store", str(place), "--json")}
    assert [states[token_digest(token).hex()[:12]] for token in ("a-client-of-mine", analysts)] == ["revoked"] * 2
    assert states[token_digest(analyst["authorization"][7:]).hex()[:12]] == "good"
    assert "0 tokens" in refused("campaign", "revoke", "xyz", "--store", str(place))


def damaged() -> dict[str, tuple[bytes, dict[str, str], str]]:
    """What may be wrong with a batch: its bytes, headers, and the kind of problem."""
    plan = small_plan()
    form, body = BatchFormat(plan), batches(small_plan(), 3, 3)[0]
    simulated = form.pack(plan.randomize(records(2), seed=1))
    return {
        "nothing": (b"", {}, "malformed"),
        "rubbish": (b"no batch at all", {}, "malformed"),
        "version": (body[:4] + b"\x02" + body[5:], {}, "unknown-version"),
        "flags": (body[:6] + b"\xff" + body[7:], {}, "malformed"),
        "plan": (batches(other_plan(), 1, 1)[0], {}, "another-plan"),
        "round": (body[:40] + b"\x01" + body[41:], {}, "another-round"),
        "truncated": (body[:-1], {}, "truncated"),
        "trailing": (body + b"\0", {}, "trailing-bytes"),
        "simulated": (simulated, {}, "rejected"),
        "no key": (body, {"idempotency-key": ""}, "no-key"),
        "long key": (body, {"idempotency-key": "k" * 129}, "no-key"),
        "spaced key": (body, {"idempotency-key": "a b"}, "no-key"),
        "type": (body, {"content-type": "text/plain"}, "content-type"),
        "encoding": (body, {"content-encoding": "gzip"}, "content-type"),
        "json": (b'{"format": 1}', {"content-type": "application/json"}, "malformed"),
        "deep json": (b"[" * 100_000, {"content-type": "application/json"}, "malformed"),
        "large": (bytes((1 << 24) + 1), {}, "too-large"),
        "large json": (bytes((1 << 20) + 1), {"content-type": "application/json"}, "too-large"),
    }


@pytest.mark.parametrize("name", damaged())
def test_what_is_wrong_is_a_problem_document_and_changes_nothing(served, place, name):
    body, more, kind = damaged()[name]
    with SqliteStore(place) as store:
        waited_for(lambda: not store.counted(1).waiting)  # what other tests have sent may be counted later
        before = store.counted(1)
    headers = {"content-type": CONTENT_TYPE, "idempotency-key": f"bad-{name}".replace(" ", ""), **more}
    status, told, answer = served.request("POST", f"{PLANS}/{small_plan().fingerprint}/reports", body, headers)
    problem = json.loads(answer)
    assert told["content-type"] == "application/problem+json"
    assert (status, problem["title"]) == (PROBLEMS[kind].status, PROBLEMS[kind].title)
    assert problem["status"] == status
    assert problem["type"].endswith(f":{kind}")
    assert problem["detail"]
    with SqliteStore(place) as store:
        after = store.counted(1)
    assert (before.batches, before.tallies) == (after.batches, after.tallies)
    metrics = served.request("GET", "/metrics")[2].decode()
    assert re.search(
        rf'dither_batches_refused_total{{plan="{small_plan().fingerprint}",reason="{kind}"}} [1-9]', metrics
    )


def test_unknown_plans_paths_and_methods(served):
    body = batches(small_plan(), 1, 1)[0]
    headers = {"content-type": CONTENT_TYPE, "idempotency-key": "a"}
    for method, path, status in (
        ("POST", f"{PLANS}/{'0' * 64}/reports", 404),
        ("POST", f"{PLANS}/x/reports", 404),
        ("POST", f"{PLANS}//reports", 404),
        ("GET", f"{PLANS}/{'0' * 64}", 404),
        ("GET", f"{PLANS}/{'0' * 64}/statement", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/browser/nothing.js", 404),
        ("GET", f"/join/{'0' * 64}", 404),
        ("GET", f"{PLANS}/", 404),
        ("GET", f"{PLANS}/{small_plan().fingerprint}/reports", 405),
        ("DELETE", PLANS, 405),
        ("PUT", f"{PLANS}/{small_plan().fingerprint}/reports", 405),
    ):
        found, told, answer = served.request(method, path, body, headers)
        assert (found, told["content-type"]) == (status, "application/problem+json"), path
        assert json.loads(answer)["status"] == status
    link_free = served.request("HEAD", f"{PLANS}/{'0' * 64}")
    assert (link_free[0], link_free[2]) == (404, b"")


def test_the_same_key_with_another_body_is_a_conflict(served):
    one, two = batches(small_plan(), 2, 1)
    assert served.send(small_plan(), one, "same")[0] == 200
    status, problem = served.send(small_plan(), two, "same")
    assert (status, problem["title"]) == (409, PROBLEMS["conflict"].title)
    assert served.send(small_plan(), one, "same") == (200, {"accepted": 1, "rejected": {}, "duplicate": True})


def test_verdicts_are_by_report(served):
    body = batches(small_plan(), 40, 40)[0]
    form = BatchFormat(small_plan())
    wrong = body[:-3] + b"\xff\xff\xff"
    batch = form.check(wrong)
    assert 0 < batch.accepted < 40
    assert served.send(small_plan(), wrong, "some") == (
        200,
        {"accepted": batch.accepted, "rejected": batch.rejected, "duplicate": False},
    )
    assert served.send(small_plan(), wrong, "some")[1]["rejected"] == batch.rejected


def test_pages_of_declared_origins_may_send_and_others_may_not(served):
    path = f"{PLANS}/{small_plan().fingerprint}/reports"
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "idempotency-key"}
    status, told, _ = served.request("OPTIONS", path, None, {"origin": ORIGIN, **asks})
    assert (status, told["access-control-allow-origin"]) == (204, ORIGIN)
    assert "idempotency-key" in told["access-control-allow-headers"]
    assert "POST" in told["access-control-allow-methods"]
    status, told, _ = served.request("OPTIONS", path, None, {"origin": "https://evil.example", **asks})
    assert status == 405
    assert "access-control-allow-origin" not in told
    for method, where in (("GET", PLANS), ("POST", path)):
        for origin in (ORIGIN, "https://evil.example"):
            _, told, _ = served.request(method, where, b"", {"origin": origin})
            assert (told.get("access-control-allow-origin") == origin) == (origin == ORIGIN)


def test_every_answer_has_security_headers(served):
    for path in (PLANS, "/nowhere", "/metrics", "/openapi.json"):
        _, told, _ = served.request("GET", path)
        assert told["x-content-type-options"] == "nosniff"
        assert told["cache-control"] == "no-store"
        assert "default-src 'none'" in told["content-security-policy"]
        assert "server" not in told


def test_the_statement_is_served_beside_the_plan(served):
    path = f"{PLANS}/{small_plan().fingerprint}/statement"
    _, told, body = served.request("GET", path)
    assert told["content-type"].startswith("text/plain")
    assert body.decode() == small_plan().statement().text()
    _, told, body = served.request("GET", path, None, {"accept": "text/html,*/*"})
    assert told["content-type"].startswith("text/html")
    assert body.decode() == small_plan().statement().html()


def test_metrics_are_lines_that_prometheus_reads(served):
    _, told, body = served.request("GET", "/metrics")
    assert told["content-type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'(# (HELP|TYPE) [a-z_]+ .+)|([a-z_]+({[a-z]+="[^"]*"(,[a-z]+="[^"]*")*})? [0-9.e+-]+)')
    for each in body.decode().splitlines():
        assert line.fullmatch(each), each
    assert f'dither_reports_accepted_total{{plan="{small_plan().fingerprint}"}}' in body.decode()


def test_the_openapi_document_describes_the_routes(served):
    status, found = served.json("GET", "/openapi.json")
    assert (status, found) == (200, json.loads(json.dumps(openapi_document())))
    plan = small_plan().fingerprint
    for path, methods in found["paths"].items():
        for method in methods.keys() - {"parameters"}:
            answer, _, _ = served.request(method.upper(), path.replace("{plan}", plan))
            assert str(answer) in methods[method]["responses"], (path, answer)
            wrong, _, _ = served.request("DELETE", path.replace("{plan}", plan))
            assert wrong == 405


def test_no_reports_and_no_addresses_in_what_it_says(tmp_path):
    served = started(tmp_path / "store", small_plan())
    body = batches(small_plan(), 3, 3)[0]
    assert served.send(small_plan(), body, MARKER)[0] == 200
    assert served.send(small_plan(), body[:-1] + MARKER.encode(), "bad", authorization=f"Bearer {MARKER}")[0] == 422
    code, said = served.stop()
    assert code == 0
    assert MARKER not in said
    assert "127.0.0.1" not in said
    served.process.stdout.close()  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.wide)])
def test_it_stops_when_told_and_goes_on_where_it_was(tmp_path, number):
    plan, bodies = small_plan(), batches(small_plan(), 30, 10)
    for life, body in enumerate(bodies):
        served = started(tmp_path / "store", *([plan] if life == 0 else []))
        assert served.send(plan, body, str(life))[0] == 200
        assert served.send(plan, bodies[0], "0")[1]["duplicate"]
        code, said = served.stop(number)
        served.process.stdout.close()  # type: ignore[union-attr]
        assert (code, "all that was acknowledged is stored" in said) == (0, True)
    form = BatchFormat(plan)
    with SqliteStore(tmp_path / "store") as store:
        assert store.counted(1).tallies[0].to_bytes() == form.tally(map(form.check, bodies)).to_bytes()


def test_campaigns_are_closed_while_they_are_served(tmp_path):
    plan, store = small_plan(), str(tmp_path / "store")
    first, second = batches(small_plan(), 2, 1)
    with serving(tmp_path / "store", plan) as served:
        assert served.send(plan, first, "a")[0] == 200
        done("campaign", "close", plan.fingerprint[:8], "--store", store)
        status, problem = 0, {}
        for _ in range(100):
            status, problem = served.send(plan, second, "b")
            if status == 410:
                break
            time.sleep(0.1)
        assert (status, problem["title"]) == (410, PROBLEMS["closed"].title)
        assert served.json("GET", PLANS)[1][0]["state"] == "closed"
    (row,) = facts("campaign", "list", "--store", store, "--json")
    assert (row["plan"], row["state"], row["batches"] >= 1) == (plan.fingerprint, "closed", True)
    done("campaign", "open", plan.fingerprint, "--store", store)
    token = done("campaign", "token", plan.fingerprint, "--role", "client", "--store", store).stdout.strip()
    with SqliteStore(store) as found:
        assert token_digest(token) in {each.digest for each in found.tokens()}
        assert token.encode() not in (Path(store) / "collector.db").read_bytes()
    done("campaign", "tally", plan.fingerprint, "-o", str(tmp_path / "all.tally"), "--store", store)
    assert plan.load_tally((tmp_path / "all.tally").read_bytes()).reports == row["reports_counted"]
    done("campaign", "delete", plan.fingerprint, "--yes", "--store", store)
    assert facts("campaign", "list", "--store", store, "--json") == []
    assert "0 plans" in refused("campaign", "close", "abc", "--store", store)


def test_limits_on_rate_and_open_requests(tmp_path):
    plan, body = small_plan(), batches(small_plan(), 1, 1)[0]
    with serving(tmp_path / "store", plan, options=("--rate", "5", "--peer-rate", "1000")) as served:
        statuses = {served.send(plan, body, "a")[0] for _ in range(40)}
        assert statuses == {200, 429}
        status, told = 0, {}
        for _ in range(40):
            status, told, _ = served.request("GET", PLANS)
            if status == 429:
                break
        assert (status, told["retry-after"]) == (429, "2")


def test_what_arrives_slowly_or_without_a_length(served):
    """In pieces, as a stream: the body has no length that could be believed."""
    import http.client

    link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    body = batches(small_plan(), 2, 2)[0]
    headers = {"content-type": CONTENT_TYPE, "idempotency-key": "pieces"}
    link.request("POST", f"{PLANS}/{small_plan().fingerprint}/reports", iter([body[:10], body[10:]]), headers)
    answer = link.getresponse()
    assert (answer.status, json.loads(answer.read())["accepted"]) == (200, 2)
    large = (bytes(1 << 20) for _ in range(20))
    try:
        link.request(
            "POST", f"{PLANS}/{small_plan().fingerprint}/reports", large, {**headers, "idempotency-key": "big"}
        )
        assert link.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):  # it was told while it was still sending
        pass
    link.close()
    assert served.request("GET", "/v1/health")[0] == 200


def test_a_request_that_never_comes_is_ended(tmp_path):
    """A client that announces a body and sends none must not hold a place for ever."""
    import asyncio

    from dither.collect import Collector, Service, ServiceOptions

    async def ask() -> list[Any]:
        with SqliteStore(tmp_path) as store:
            collector = Collector(store)
            collector.add(small_plan().to_json().encode())
            service = Service(collector, ServiceOptions(body_seconds=0.05))
            told: list[Any] = []

            async def receive() -> Any:
                await asyncio.sleep(60)

            async def send(message: Any) -> None:
                told.append(message)

            headers = [(b"content-type", CONTENT_TYPE.encode()), (b"idempotency-key", b"a"), (b"content-length", b"9")]
            path = f"{PLANS}/{small_plan().fingerprint}/reports"
            scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": None}
            await service(scope, receive, send)
            return told

    start, body = asyncio.run(ask())
    assert (start["status"], json.loads(body["body"])["title"]) == (408, PROBLEMS["timeout"].title)
