"""`python -m dither` is the `dither` command."""

from dither.cli import main

if __name__ == "__main__":
    main(prog_name="dither")
