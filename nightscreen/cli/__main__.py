"""`python -m nightscreen.cli` runs the console command where it is not on the path."""

from nightscreen.cli.entry import run

if __name__ == "__main__":
    run()
