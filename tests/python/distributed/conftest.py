"""Tests marked as long run in scripts/long-tests, the others in scripts/test, too."""


def pytest_configure(config):
    config.addinivalue_line("markers", "long: of scripts/long-tests; scripts/test has the same in a shorter form")
