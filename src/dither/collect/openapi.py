"""The OpenAPI document of the service, in one place; tests compare it with the routes."""

from typing import Any

from dither import __version__
from dither.collect.problems import CONTENT_TYPE as PROBLEM
from dither.collect.problems import PROBLEMS
from dither.collect.sealed_reports import CONTENT_TYPE as SEALED
from dither.wire import CONTENT_TYPE as BATCH

KEY_LETTERS = 128  # of an idempotency key
_HASH = {"name": "plan", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "A name that the client gives to this batch, and to no other; a retry has the same.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LETTERS, "pattern": "^[!-~]+$"},
}
_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {"event": {"type": "string"}, "data": {"type": "string", "description": "JSON"}},
}
_COUNTS = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(text: str, schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"description": text, "content": {kind: {"schema": schema}}}


def _problems(*statuses: int) -> dict[str, Any]:
    told = {status: sorted({each.title for each in PROBLEMS.values() if each.status == status}) for status in statuses}
    return {
        str(status): _answer("; ".join(titles), _ref("Problem"), PROBLEM.decode()) for status, titles in told.items()
    }


def _query(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": text, "schema": {"type": "string"}}


def _page(name: str, text: str, *problems: int) -> dict[str, Any]:
    answers = {"200": _answer("The page.", {"type": "string"}, "text/html"), **_problems(*problems)}
    return {"operationId": name, "summary": text, "responses": answers}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def openapi_document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    text, whole = {"type": "string"}, {"type": "integer", "minimum": 0}
    campaign = _object(plan=text, state={"enum": ["open", "closed"]}, closes={"type": ["integer", "null"]}, url=text)
    accepted = _object(accepted=whole, rejected=_COUNTS, duplicate={"type": "boolean"})
    query = {
        "type": "object",
        "required": ["conditions"],
        "additionalProperties": False,
        "properties": {
            "conditions": {
                "type": "array",
                "minItems": 1,
                "maxItems": 100,
                "items": {"type": "string", "maxLength": 2000},
            },
            "question": {"type": ["string", "null"]},
        },
    }
    problem = {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {"type": text, "title": text, "status": whole, "detail": text, "rejected": _COUNTS},
    }
    analyst = [{"analyst": []}]
    reports = {
        "operationId": "sendReports",
        "summary": "Store a batch of reports. The answer comes when it is on the disk; a retry is counted once.",
        "parameters": [_KEY],
        "security": [{}, {"client": []}],
        "requestBody": {
            "required": True,
            "content": {
                BATCH: {"schema": {"type": "string", "format": "binary"}},
                "application/json": {"schema": _ref("Reports")},
            },
        },
        "responses": {
            "200": _answer("It is stored, now or before.", _ref("Accepted")),
            **_problems(400, 401, 403, 404, 408, 409, 410, 413, 415, 422, 429, 503),
        },
    }
    sealed = {
        "operationId": "sendSealedBatch",
        "summary": "Open and store a batch that a shuffler forwards. A retry with the same key is counted once.",
        "parameters": [_KEY],
        "security": [{}, {"shuffler": []}],
        "requestBody": {"required": True, "content": {SEALED: {"schema": {"type": "string", "format": "binary"}}}},
        "responses": reports["responses"],
    }
    key = _object(id=text, state={"const": "active"}, public=text)
    keys = _object(
        plan=text,
        state={"enum": ["open", "closed"]},
        suite={"type": "object"},
        size=whole,
        rounds=whole,
        crowds=whole,
        batch={"type": ["integer", "null"]},
        keys={"type": "array", "items": key},
    )
    batch = _object(
        format={"const": "dither reports 1"},
        plan=text,
        sections={"type": "array", "items": _object(part={"type": ["string", "integer"]}, reports={"type": "array"})},
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "dither collector", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": {
            "/v1/plans": {
                "get": {
                    "operationId": "listPlans",
                    "summary": "The campaigns that are served.",
                    "responses": {"200": _answer("All of them.", {"type": "array", "items": _ref("Campaign")})},
                }
            },
            "/v1/plans/{plan}": {
                "parameters": [_HASH],
                "get": {
                    "operationId": "getPlan",
                    "summary": "The plan itself, plan.json as it was given.",
                    "responses": {"200": _answer("The plan.", {"type": "object"}), **_problems(404)},
                },
            },
            "/v1/plans/{plan}/reports": {"parameters": [_HASH], "post": reports},
            "/v1/plans/{plan}/estimate": {
                "parameters": [_HASH],
                "get": {
                    "operationId": "getEstimate",
                    "summary": "All estimates with their intervals, made again at most every second.",
                    "security": analyst,
                    "responses": {
                        "200": _answer("The estimates.", {"type": "object"}),
                        **_problems(401, 403, 404, 422, 503),
                    },
                },
            },
            "/v1/plans/{plan}/query": {
                "parameters": [_HASH],
                "post": {
                    "operationId": "query",
                    "summary": "Answer conditions in the words of SQL, if the plan asks for ranges.",
                    "security": analyst,
                    "requestBody": {"required": True, "content": {"application/json": {"schema": query}}},
                    "responses": {
                        "200": _answer("The answers.", {"type": "object"}),
                        **_problems(400, 401, 403, 404, 408, 413, 415, 422, 503),
                    },
                },
            },
            "/v1/plans/{plan}/statement": {
                "parameters": [_HASH],
                "get": {
                    "operationId": "getStatement",
                    "summary": "What the people who are asked should know, in plain words.",
                    "responses": {
                        "200": {
                            "description": "The statement; a page where HTML is accepted.",
                            "content": {"text/plain": {"schema": text}, "text/html": {"schema": text}},
                        },
                        **_problems(404),
                    },
                },
            },
            "/v1/plans/{plan}/keys": {
                "parameters": [_HASH],
                "get": {
                    "operationId": "getKeys",
                    "summary": "The public keys that reports are sealed to, for plans whose reports are shuffled.",
                    "responses": {"200": _answer("The keys.", _ref("Keys")), **_problems(404)},
                },
            },
            "/v1/plans/{plan}/sealed-batches": {"parameters": [_HASH], "post": sealed},
            "/v1/campaigns": {
                "get": {
                    "operationId": "listCampaigns",
                    "summary": "The campaigns whose results this token may see, with how many reports they have.",
                    "security": analyst,
                    "responses": {
                        "200": _answer("All of them.", {"type": "array", "items": {"type": "object"}}),
                        **_problems(401, 403, 503),
                    },
                }
            },
            "/v1/plans/{plan}/live": {
                "parameters": [_HASH],
                "get": {
                    "operationId": "getLivePage",
                    "summary": "What the live page shows, drawn: pieces of HTML by their name.",
                    "parameters": [_query("seen", "The version that was seen: what has not changed is left out.")],
                    "security": analyst,
                    "responses": {"200": _answer("The pieces.", {"type": "object"}), **_problems(401, 403, 404, 503)},
                },
            },
            "/v1/plans/{plan}/pair": {
                "parameters": [_HASH],
                "get": {
                    "operationId": "getPair",
                    "summary": "The heat map of two attributes of a question about ranges, and what its cells are.",
                    "parameters": [
                        _query("question", "Which ranges, where the plan asks for several."),
                        _query("first", "An attribute."),
                        _query("second", "Another one."),
                    ],
                    "security": analyst,
                    "responses": {
                        "200": _answer("The map.", {"type": "object"}),
                        **_problems(401, 403, 404, 422, 503),
                    },
                },
            },
            "/v1/plans/{plan}/events": {
                "parameters": [_HASH],
                "get": {
                    "operationId": "getEvents",
                    "summary": "A stream of server-sent events: what has changed, until the campaign ends.",
                    "security": analyst,
                    "responses": {
                        "200": _answer("The stream, an event each.", _EVENT, "text/event-stream"),
                        **_problems(401, 403, 404, 503),
                    },
                },
            },
            "/": {"get": _page("getLiveFrame", "The live page, for analysts: asks for a token.")},
            "/join": {"get": _page("getJoin", "The page for the people who are asked.")},
            "/join/{plan}": {
                "parameters": [_HASH],
                "get": _page("getJoinOfPlan", "The same, of one of several campaigns.", 404),
            },
            "/v1/health": {
                "get": {
                    "operationId": "getHealth",
                    "summary": "Whether batches are taken.",
                    "responses": {"200": _answer("They are.", _object(status=text, version=text)), **_problems(503)},
                }
            },
            "/metrics": {
                "get": {
                    "operationId": "getMetrics",
                    "summary": "Counters for Prometheus.",
                    "responses": {"200": _answer("The metrics.", text, "text/plain")},
                }
            },
            "/openapi.json": {
                "get": {
                    "operationId": "getOpenapi",
                    "summary": "This document.",
                    "responses": {"200": _answer("This document.", {"type": "object"})},
                }
            },
        },
        "components": {
            "schemas": {"Accepted": accepted, "Campaign": campaign, "Keys": keys, "Problem": problem, "Reports": batch},
            "securitySchemes": {
                "client": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Of a campaign that has clients' tokens.",
                },
                "analyst": {"type": "http", "scheme": "bearer"},
                "shuffler": {"type": "http", "scheme": "bearer", "description": "Of a campaign that has such tokens."},
            },
        },
    }
