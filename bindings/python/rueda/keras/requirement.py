"""The Keras that rueda.keras needs. The package imports this first."""

from rueda.requirements import require

require("rueda.keras", "Keras", "keras", (2, 13))
