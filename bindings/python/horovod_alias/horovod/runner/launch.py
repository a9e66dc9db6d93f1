"""Horovod's place of the launcher: `python -m horovod.runner.launch -np 4 ...` is hvdrun, as horovodrun is."""

from rueda.programs import hvdrun as run_commandline

if __name__ == "__main__":
    run_commandline()
