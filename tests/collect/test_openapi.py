"""The service against its own description: requests that schemathesis makes of the OpenAPI document, good and bad.

Every answer has a status, a content type and a body that the document names, none is a failure, and nothing that was
sent this way is counted. The narrow suite makes some of each operation, the wide one for two minutes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from collect.collectors import Served, ranges_plan, serving, small_plan
from dither.collect import SqliteStore
from dither.collect.openapi import openapi_document
from dither.collect.sealed_reports import CONTENT_TYPE as SEALED
from dither.wire import CONTENT_TYPE as BATCH
from marks import wide

schemathesis.serializer.alias([BATCH, SEALED], "application/octet-stream")


def operations(document: dict[str, Any]) -> list[Any]:
    found: Any = schemathesis.openapi.from_dict(document)
    return [each.ok() for each in found.get_all_operations()]


OPERATIONS = {each.label: each for each in operations(openapi_document())}
STREAMS = 5
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("described") / "store"


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Served]:
    with serving(place, small_plan(), ranges_plan()) as found:
        yield found


def counted(place: Path) -> list[int]:
    with SqliteStore(place) as store:
        return [store.counted(campaign.number).batches for campaign in store.campaigns()]


@pytest.mark.parametrize("examples", [10, wide(500)])
@pytest.mark.parametrize("label", OPERATIONS)
def test_answers_are_as_described_whatever_is_sent(served: Served, place: Path, label: str, examples: int):
    token = f"Bearer {(place / 'analyst.token').read_text().strip()}"
    operation, before = OPERATIONS[label], counted(place)
    if label.endswith("/events"):  # a stream has no end: each is read for seconds
        examples = min(examples, STREAMS)
    requests = st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode])
    slow: Any = list(HealthCheck)
    plans = st.sampled_from([small_plan().fingerprint, ranges_plan().fingerprint, None])

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=slow)
    @given(requests, plans, st.booleans())
    def answered(case: Any, plan: str | None, known: bool) -> None:
        if plan is not None and case.path_parameters:
            case.path_parameters["plan"] = plan
        headers = {"authorization": token} if known else None
        case.call_and_validate(base_url=f"http://127.0.0.1:{served.port}", headers=headers, checks=CHECKS)

    answered()
    assert counted(place) == before
    assert served.request("GET", "/v1/health")[0] == 200


def test_the_checks_notice_an_answer_that_is_not_described(served: Served):
    """A mutant: the same document without the status that unknown plans get."""
    document = openapi_document()
    del document["paths"]["/v1/plans/{plan}"]["get"]["responses"]["404"]
    (operation,) = [each for each in operations(document) if each.label == "GET /v1/plans/{plan}"]
    case = operation.Case(path_parameters={"plan": "0" * 64})
    with pytest.raises(FailureGroup, match="Undocumented status code"):
        case.call_and_validate(base_url=f"http://127.0.0.1:{served.port}", checks=CHECKS)
