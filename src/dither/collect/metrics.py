"""What a collector has done since it started, in the text format of Prometheus."""

from collections import Counter
from collections.abc import Iterable, Iterator

from dither.collect.collector import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float]


def metrics_text(collector: Collector, requests: Counter[tuple[str, int]], open_requests: int) -> str:
    """All metrics. None of them is about a single report or a single peer."""
    figures, running = collector.figures, list(collector.running.values())
    plans = [({"plan": each.plan.fingerprint}, each) for each in running]
    families: list[tuple[str, str, str, Iterable[Sample]]] = [
        (
            "dither_requests_total",
            "counter",
            "Requests, by route and status.",
            [({"route": route, "status": str(status)}, count) for (route, status), count in sorted(requests.items())],
        ),
        ("dither_open_requests", "gauge", "Requests that are being answered.", [({}, open_requests)]),
        (
            "dither_reports_accepted_total",
            "counter",
            "Reports that were accepted, each once.",
            [(plan, each.accepted) for plan, each in plans],
        ),
        (
            "dither_reports_rejected_total",
            "counter",
            "Reports that were rejected, by reason.",
            [({**plan, "reason": why}, count) for plan, each in plans for why, count in sorted(each.rejected.items())],
        ),
        (
            "dither_batches_total",
            "counter",
            "Batches that were stored, each once.",
            [(plan, each.batches) for plan, each in plans],
        ),
        (
            "dither_batches_repeated_total",
            "counter",
            "Batches that were stored before, and are counted once.",
            [(plan, each.duplicates) for plan, each in plans],
        ),
        (
            "dither_batches_refused_total",
            "counter",
            "Batches that were refused as a whole, by reason.",
            [({**plan, "reason": why}, count) for plan, each in plans for why, count in sorted(each.refused.items())],
        ),
        ("dither_commits_total", "counter", "Commits; each stores what arrived together.", [({}, figures.commits)]),
        ("dither_commit_seconds_total", "counter", "Time spent in commits.", [({}, figures.commit_seconds)]),
        ("dither_folds_total", "counter", "Steps of counting.", [({}, figures.folds)]),
        ("dither_fold_seconds_total", "counter", "Time spent in counting.", [({}, figures.fold_seconds)]),
        (
            "dither_failures_total",
            "counter",
            "Commits and steps of counting that failed, by kind.",
            [({"kind": kind}, count) for kind, count in sorted(figures.failures.items())],
        ),
        ("dither_queued_bytes", "gauge", "Bytes that wait to be stored.", [({}, collector.queued_bytes)]),
        ("dither_uncounted_bytes", "gauge", "Bytes that wait to be counted.", [({}, collector.uncounted_bytes)]),
    ]
    return "\n".join(line for family in families for line in _family(*family)) + "\n"


def _family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{told}}} {value:.15g}" if told else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
