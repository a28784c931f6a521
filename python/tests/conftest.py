import os

import pytest

from layercast_lab import simulator


@pytest.fixture(scope="session")
def command():
    """The simulator's command; without it what needs it is skipped, or fails under make."""
    try:
        return simulator.command()
    except FileNotFoundError as error:
        if os.environ.get("LAYERCAST_REQUIRE_TOOLS"):
            raise
        pytest.skip(str(error))
