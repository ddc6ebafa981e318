"""What the tests of the sandbox share: warm parents, started once for a file, and which of them is in use."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# Kernels are isolated on Linux only: elsewhere these modules may not be importable.
if TYPE_CHECKING:
    from autograder.kernels.launch import WarmParent
    from tests.redteam.sandboxes import Parents


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Parents]":
    from tests.redteam.sandboxes import Parents

    found = Parents(tmp_path_factory.mktemp("kernels"))
    yield found
    for parent in found.started.values():
        parent.close()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch):
    """Have the provisioner use a warm parent, and tell its kernels which variant of the sandbox to enter."""
    from autograder.kernels import launch, provisioner

    # Ahead of time would come a kernel for the variant before, which nobody wants any more.
    monkeypatch.setattr(launch.WarmParent, "prepare", lambda self, **_: None)
    monkeypatch.setattr(provisioner, "PASSED_ON", (*provisioner.PASSED_ON, "HEADROOM_VARIANT"))

    def use(parent: "WarmParent", variant: str = "") -> None:
        monkeypatch.setattr(launch, "_parent", parent)
        monkeypatch.setenv("HEADROOM_VARIANT", variant)

    return use
