"""The command between two phases: the plan for the users who come next, from the tally of those who came first."""

import click

from dither.cli.common import (
    STREAM,
    checked_output,
    json_option,
    key_option,
    once_from_input,
    plan_argument,
    read_plan,
    read_tally,
    say,
    sealing_key,
    shell_quoted,
    show,
    tell,
    writable,
    write,
)


@click.command("next")
@plan_argument
@click.argument("tally_file", metavar="TALLY")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the next plan to this file.")
@key_option("Only a tally that is sealed with the key in this file.")
@json_option("Print the plan as JSON instead of tables.")
def next(  # noqa: A001 - the name of the command
    plan_file: str, tally_file: str, output: str | None, key_file: str | None, as_json: bool
) -> None:
    """Plan the second phase from the tally of the first.

    PLAN is what dither plan --phases 2 wrote, and TALLY that of the reports of its users. The next plan is for other
    users: nobody reports in both phases, and who reports in which is decided without looking at a record.

    \b
    dither plan schema.toml --epsilon 1 --users 100000 --phases 2 -o first.json
    dither next first.json first.tally -o second.json
    dither estimate second.json second.tally --earlier first.tally
    """
    once_from_input(plan_file, tally_file)
    checked_output(output, [plan_file, tally_file], as_json=as_json)
    writable(output)
    made = read_plan(plan_file)
    later = made.next(read_tally(tally_file, made, sealing_key(key_file)))
    if output:
        write(output, later.to_json() + "\n")
    if as_json:
        say(later.to_json())
    elif output != STREAM:
        show(later.table(), later.explain())
    if output and output != STREAM:
        tell(f"wrote {output}, plan {later.fingerprint[:12]}, after the tally {later.after.tally[:12]}")  # type: ignore[union-attr]
        tell(
            f"next: dither randomize {shell_quoted(output)} DATA -o second.parquet, with the users who have not "
            f"reported yet; then dither estimate {shell_quoted(output)} second.tally --earlier "
            f"{shell_quoted(tally_file)}"
        )
    elif not output and not as_json:
        tell(f"next: the same with -o second.json; keep {tally_file}, which estimates need, too")
