"""run() with mpirun as the starter of the ranks."""

import rueda


def test_results_come_whole_between_lines_that_mpirun_cuts(capfd):
    assert rueda.run(print_much, (300,), num_proc=2, use_mpi=True) == [b"x" * 300_000] * 2
    lines = capfd.readouterr().out.splitlines()
    for rank in range(2):
        tag = f"[1,{rank}]<stdout>:"
        assert [line for line in lines if line.startswith(tag)] == [f"{tag}{i:04} {'.' * 5000}" for i in range(300)]
    assert len(lines) == 600


def print_much(count):
    import os

    for i in range(count):
        os.write(1, f"{i:04} {'.' * 5000}\n".encode())
    return b"x" * (1000 * count)
