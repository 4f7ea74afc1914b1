"""`dither train`: a linear model from a file of records, as devices and a server would train it, or a curator."""

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import dither
from dither.cli.common import (
    STREAM,
    checked_output,
    facts,
    invalid_option,
    json_option,
    once_from_input,
    pace,
    refuse_pipes,
    seed_option,
    shell_quoted,
    show,
    tell,
    writable,
    write,
)
from dither.display.progress import track
from dither.errors import ParameterError, RowError, require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dither.learn.encoding import Encoder
    from dither.schema import Attribute, Schema

_MODELS = {"logistic": "LogisticRegression", "svc": "LinearSVC", "linear": "LinearRegression"}
_CENTRAL_DELTA = 1e-5


@click.command()
@click.argument("data", metavar="DATA")
@click.option("--label", required=True, metavar="NAME", help="The attribute to predict.")
@click.option("--epsilon", type=float, required=True, help="What the only report of a user may cost.")
@click.option("--delta", type=float, default=None, help="A failure probability; 0 unless the mechanism needs one.")
@click.option("--model", "kind", type=click.Choice(list(_MODELS)), default="logistic", show_default=True)
@click.option(
    "--schema", "schema_file", type=click.Path(dir_okay=False), help="Domains (.toml); else they are guessed."
)
@click.option("--positive", metavar="LABEL", help="The class to tell from all others, where there are more than two.")
@click.option(
    "--mechanism", default="auto", show_default=True, help="A mechanism for vectors, as in UnitVector or Hypercube."
)
@click.option("--test", "test_file", metavar="FILE", help="Measure on these records; else on a share of DATA.")
@click.option(
    "--test-share", type=click.FloatRange(0, 1, max_open=True), default=0.2, show_default=True, help="0: measure none."
)
@click.option("--central", is_flag=True, help="Trust a curator: DP-SGD over all records, with a delta (logistic only).")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the model here (.json).")
@invalid_option
@seed_option
@json_option()
def train(
    data: str,
    label: str,
    epsilon: float,
    delta: float | None,
    kind: str,
    schema_file: str | None,
    positive: str | None,
    mechanism: str,
    test_file: str | None,
    test_share: float,
    central: bool,
    output: str | None,
    invalid: str,
    seed: int | None,
    as_json: bool,
) -> None:
    """Train a linear model on records, each user with one private report.

    A simulation of devices and server on records that may be seen, for trials: DATA is a file (.csv, .parquet, .arrow),
    a folder of Parquet files, or - for standard input.

    \b
    dither train people.parquet --label income --schema schema.toml --epsilon 2 -o model.json
    dither train people.parquet --label income --epsilon 2 --model svc --mechanism Hypercube
    """
    if central and kind != "logistic":
        raise click.UsageError("--central trains a logistic model: leave --model out.")
    if central and mechanism != "auto":
        raise click.UsageError("--central adds Gaussian noise to sums; --mechanism is for the reports of users.")
    once_from_input(data, test_file)
    checked_output(output, [each for each in (data, test_file, schema_file) if each], as_json=as_json)
    writable(output)
    refuse_pipes([data, test_file], "the records")
    schema = _schema(data, schema_file)
    task = _task(schema, label, kind, positive, schema_file is None)
    train_part, test_part = _parts(data, test_file, test_share, schema, task, invalid, seed)
    began = time.monotonic()
    if central:
        made = _central(train_part, task, epsilon, _CENTRAL_DELTA if delta is None else delta, seed)
    else:
        made = _local(train_part, task, kind, epsilon, delta or 0.0, mechanism, invalid, seed)
    seconds = time.monotonic() - began
    measured = _measured(made.model, task, test_part)
    if output:  # first, since whoever reads the table may stop reading
        write(output, json.dumps(made.stored, indent=2, allow_nan=False) + "\n")
    told = {
        "model": made.stored["model"],
        "features": task.encoder.d,
        "users": len(train_part.labels),
        **measured,
        "mechanism": made.mechanism,
    }
    if as_json:
        facts({**told, "guarantee": made.stored["guarantee"], "seconds": round(seconds, 3), "file": output})
    elif output != STREAM:
        from dither.display.table import TextTable

        shown = {**told, "guarantee": made.promise}
        show(TextTable({"what": list(shown), "value": [_written(value) for value in shown.values()]}))
    tell(f"trained on {pace(len(train_part.labels), seconds, 'user')}" + (f"; wrote {output}" if output else ""))
    if seed is not None:
        tell("simulated: whoever knows the seed can undo the noise, so this model promises nothing; leave --seed out")
    if output and output != STREAM:
        tell(f'next, in Python: dither.learn.load_model("{output}").predict(table)')


class LearningTask(NamedTuple):
    """What is learned from what."""

    encoder: "Encoder"
    label: str
    attribute: "Attribute"
    classes: tuple[str, str] | None  # of which the second is the positive one; None for a number


class LabelledTable(NamedTuple):
    """Encoded records, and their labels."""

    features: "NDArray[np.float64]"
    labels: "NDArray[Any]"


class Made(NamedTuple):
    """A trained model, what is written of it, and what it promises."""

    model: Any
    stored: dict[str, Any]
    mechanism: str
    promise: str


def _schema(data: str, schema_file: str | None) -> "Schema":
    """The domains, from a file or guessed from the data."""
    if schema_file is not None:
        return dither.Schema.read(schema_file)
    if data == STREAM:
        raise ParameterError("standard input is read once, so no schema can be guessed from it: give one with --schema")
    from dither.cli.planning import MOST_ROWS, first_rows
    from dither.planning.infer import WARNING, infer

    found = infer(first_rows(data, None, None, MOST_ROWS, None))
    tell(f"Warning: {WARNING}")
    tell(
        f"next: dither infer {shell_quoted(data)} -o schema.toml; read and edit it; then the same with "
        "--schema schema.toml"
    )
    if found.left_out:
        tell(f"note: {len(found.left_out)} columns were left out; dither infer says why")
    return found.schema


def _task(schema: "Schema", label: str, kind: str, positive: str | None, guessed: bool) -> LearningTask:
    from dither.learn.encoding import Encoder

    encoder, attribute = Encoder.without(schema, label), schema[label]
    if kind == "linear":
        if attribute.kind not in ("numeric", "ordinal"):
            raise ParameterError("a linear regression predicts a number; --model logistic predicts a category")
        if positive is not None:
            raise ParameterError("--positive names a class; a linear regression has none")
        return LearningTask(encoder, label, attribute, None)
    if attribute.kind != "categorical":
        raise ParameterError(
            "the label is a number, and this model predicts a category: use --model linear, or make two labels of it"
        )
    labels = list(attribute.labels)
    if positive is None and guessed:  # a guessed schema has labels for what a sample lacks
        labels = [each for each in labels if each not in ("other", "missing")] or labels
    if positive is not None and positive not in labels:
        raise ParameterError("--positive is not one of the labels of the schema")
    if positive is None and len(labels) != 2:
        raise ParameterError(
            f"the label has {len(labels)} classes, and a model tells two apart: name the one of interest with "
            "--positive, or leave two labels in the schema"
        )
    wanted = positive or labels[1]
    rest = [each for each in labels if each != wanted]
    return LearningTask(encoder, label, attribute, (rest[0] if len(rest) == 1 else f"not {wanted}", wanted))


def _parts(
    data: str, test_file: str | None, share: float, schema: "Schema", task: LearningTask, invalid: str, seed: int | None
) -> tuple[LabelledTable, LabelledTable | None]:
    """Records to train on, and to measure on: others, which are drawn at random unless they have a file."""
    from dither.learn.linear import public_order

    whole = _read(data, schema, task, invalid)
    if len(whole.labels) < 2:
        raise ParameterError("there must be at least two records to learn from")
    if test_file is not None:
        return whole, _read(test_file, schema, task, invalid)
    order = public_order(len(whole.labels), seed)
    cut = round(len(order) * share)
    if cut == 0:
        return whole, None
    if len(order) - cut < 2:
        raise ParameterError("so large a test share leaves nobody to learn from")
    kept, held = order[cut:], order[:cut]
    return LabelledTable(whole.features[kept], whole.labels[kept]), LabelledTable(
        whole.features[held], whole.labels[held]
    )


def _read(path: str, schema: "Schema", task: LearningTask, invalid: str) -> LabelledTable:
    import numpy as np

    from dither.display.progress import progress
    from dither.engines.records import open_records

    arrow = require("pyarrow", "fast")
    found = open_records(path, dict(schema))
    batches = []
    with progress("Reading", found.rows, unit="records") as advance:
        for batch in found.batches():
            batches.append(batch)
            advance(batch.num_rows)
    table = arrow.Table.from_batches(batches, found.schema)
    features = task.encoder.transform(table, invalid)
    column = table[task.label]
    attribute: Any = task.attribute  # which `_task` has checked
    try:
        numbers = attribute.encode(column, invalid)
    except RowError as error:
        wrong = error.but(attribute=task.label)
    else:
        if task.classes is None:
            return LabelledTable(features, np.asarray(attribute.decode(numbers), dtype=np.float64))
        positive = np.asarray(numbers == attribute.labels.index(task.classes[1]))
        return LabelledTable(features, np.array(task.classes)[positive.astype(np.intp)])
    raise wrong


def _local(
    part: LabelledTable,
    task: LearningTask,
    kind: str,
    epsilon: float,
    delta: float,
    mechanism: str,
    invalid: str,
    seed: int | None,
) -> Made:
    import dither.learn.linear as linear

    options: dict[str, Any] = {"mechanism": mechanism, "encoder": task.encoder, "invalid": invalid, "seed": seed}
    if task.classes is None:
        attribute: Any = task.attribute  # a number
        options["bounds"] = (float(attribute.low), float(attribute.high))
    else:
        options["classes"] = task.classes
    model: Any = getattr(linear, _MODELS[kind])(epsilon, delta, **options)
    model.progress = track("Training")
    model.fit(part.features, part.labels)
    stored = {**model.to_dict(), "label": task.label}
    return Made(model, stored, repr(model.reporter.mechanism), str(model.guarantee))


def _measured(model: Any, task: LearningTask, part: LabelledTable | None) -> dict[str, Any]:
    """On records that were not trained on: accuracy beside that of the commonest class, or errors beside the mean's."""
    import numpy as np

    if part is None or not len(part.labels):
        return {}
    found = model.predict(part.features)
    if task.classes is None:
        baseline = float(np.sqrt(np.mean((part.labels - part.labels.mean()) ** 2)))
        return {
            "measured on": len(part.labels),
            "root mean squared error": float(np.sqrt(np.mean((part.labels - found) ** 2))),
            "baseline (the mean)": baseline,
        }
    share = float(np.mean(part.labels == task.classes[1]))
    return {
        "measured on": len(part.labels),
        "accuracy": float(np.mean(found == part.labels)),
        "baseline (commonest class)": max(share, 1 - share),
    }


def _written(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _central(part: LabelledTable, task: LearningTask, epsilon: float, delta: float, seed: int | None) -> Made:
    """DP-SGD on a logistic model; what comes out is written as a local model is."""
    import numpy as np

    torch = require("torch", "learn")
    from dither.learn.dpsgd import DPSGD
    from dither.learn.linear import load_model

    assert task.classes is not None
    layer = torch.nn.Linear(task.encoder.d, 2)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    records = len(part.labels)
    training = DPSGD(
        layer,
        epsilon=epsilon,
        delta=delta,
        batch=max(1, min(records, round(records**0.5 * 8))),
        epochs=10,
        rate=1.0,
        clip=1.0,
        average=0.5,
        seed=seed,
    )
    training.fit(part.features.astype(np.float32), (part.labels == task.classes[1]).astype(np.int64))
    weight, bias = (each.detach().double().numpy() for each in training.model.parameters())
    promised = training.guarantee
    stored: dict[str, Any] = {
        "format": "dither model 1",
        "model": "LogisticRegression",
        "coefficients": (weight[1] - weight[0]).tolist(),
        "intercept": float(bias[1] - bias[0]),
        "labels": list(task.classes),
        "schema": task.encoder.schema.to_dict(),
        "mechanism": "DP-SGD: Gaussian noise on sums of clipped gradients, by a trusted curator",
        "users": records,
        "guarantee": promised.to_dict(),
        "label": task.label,
    }
    return Made(load_model(stored), stored, stored["mechanism"], str(promised))
