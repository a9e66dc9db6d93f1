"""The launcher under the module name of Horovod: `python -m horovod.runner.launch -np 4 ...` is hvdrun."""

from rueda.programs import hvdrun as run_commandline

if __name__ == "__main__":
    run_commandline()
