"""The command for the people who are asked: `dither statement` puts a plan into plain words, for a privacy notice."""

import click

from dither.cli.common import (
    STREAM,
    checked_output,
    facts,
    json_option,
    plan_argument,
    printable,
    read_plan,
    say,
    shell_quoted,
    tell,
    writable,
    write,
)


@click.command()
@plan_argument
@click.option("--collector", metavar="TEXT", help="Who collects.")
@click.option("--purpose", metavar="TEXT", help="What the results are for.")
@click.option("--contact", metavar="TEXT", help="Whom to ask, and whom to tell that one withdraws.")
@click.option("--keep-reports", metavar="TIME", help="For how long reports are kept: 30d, 4w, 6m, 1y, or words.")
@click.option("--keep-results", metavar="TIME", help="For how long sums and results are kept.")
@click.option("--connection", metavar="TEXT", help="What is kept about connections, such as network addresses.")
@click.option("--shuffler", metavar="TEXT", help="Who mixes the reports before they are collected, if somebody does.")
@click.option("-o", "--output", metavar="FILE", help="Write it: .md for a notice, .txt, or .html for a page.")
@click.option("--html", metavar="FILE", help="Write it as a page.")
@json_option()
def statement(
    plan_file: str, shuffler: str | None, output: str | None, html: str | None, as_json: bool, **told: str | None
) -> None:
    """Say in plain words, for the people asked, what a plan asks, sends and reveals.

    For a privacy officer to put into a notice. What a plan does not know, such as who collects and for how long reports
    are kept, is given by options; what is not given is a blank, marked in the text and listed at the end.

    \b
    dither statement plan.json
    dither statement plan.json --collector "The town of Ahausen" --keep-reports 30d -o statement.md
    dither statement plan.json --html statement.html
    """
    for path in (output, html):
        checked_output(path, [plan_file], as_json=as_json)
    writable(output, html)
    found = read_plan(plan_file).statement(shuffler=shuffler, **told)
    if output:
        write(output, found.markdown() if output == STREAM else found.written(output))
    if html:
        write(html, found.html())
    if as_json:
        facts(found.to_dict())
    elif not output and not html:
        say(printable(found.text()))
    for path in (output, html):
        if path and path != STREAM:
            tell(f"wrote {path}, for plan {found.plan[:12]}")
    if found.blanks:
        tell("to be filled in, by these options or by hand:")
        for name, what in found.blanks.items():
            tell(f"  --{name.replace('_', '-'):<13} {what}")
    if not (output or html or as_json):
        tell(f"next: dither statement {shell_quoted(plan_file)} ... -o statement.md --html statement.html")
