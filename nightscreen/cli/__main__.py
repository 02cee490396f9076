"""`python -m nightscreen.cli` is the console command, also where that is not on the path."""

from nightscreen.cli.entry import run

if __name__ == "__main__":
    run()
