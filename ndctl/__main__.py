"""`python -m ndctl` is the same program as `ndctl`."""

from ndctl.cli.main import run

if __name__ == "__main__":
    run()
