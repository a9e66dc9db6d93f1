"""Texts of elastic jobs that scripts look for."""

RESET_LIMIT_EXCEEDED_MESSAGE = "the job was reset more than {} times (--reset-limit)"
