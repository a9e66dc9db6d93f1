"""The NumPy that rueda.numpy needs. The package imports this first."""

from rueda.requirements import require

require("rueda.numpy", "NumPy", "numpy", (1, 23))
