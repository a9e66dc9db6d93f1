"""The PyTorch that rueda.torch needs. The package imports this first."""

from rueda.requirements import require

require("rueda.torch", "PyTorch", "torch", (1, 13))
