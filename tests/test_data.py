"""Digits: the embedded ones are MNIST's, the split holds, and all of MNIST is asked for politely."""

import socket
import struct
import subprocess
import sys
from urllib.error import URLError

import numpy as np
import pytest
import torch

from headroom.data import digits as module
from headroom.data import embedded_digits, mnist


@pytest.fixture(scope="module")
def digits():
    return embedded_digits()


def test_the_embedded_digits_are_mnists_first_10_000_training_digits():
    with np.load(module.EMBEDDED) as stored:
        images, labels = stored["images"], stored["labels"]
    # Taken from MNIST's own files, when this test was written.
    assert module.content_sha256(images, labels) == "2e49afdffc567fd5f9f306a04e2bafced2432146ae04f4b9a58b25505ba05b2e"
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_embedded_digits_are_ready_to_train_on(digits):
    for images, labels, count in (
        (digits.train_images, digits.train_labels, 9000),
        (digits.val_images, digits.val_labels, 1000),
    ):
        assert images.shape == (count, 1, 28, 28) and images.dtype == torch.float32
        assert images.min() == 0 and images.max() == 1
        assert labels.shape == (count,) and labels.dtype == torch.int64


def test_the_split_takes_a_tenth_of_every_class(digits):
    train, held_out = torch.bincount(digits.train_labels), torch.bincount(digits.val_labels)
    assert train.tolist() == [901, 1015, 892, 928, 882, 777, 913, 963, 849, 880]
    assert held_out.tolist() == [100, 112, 99, 104, 98, 86, 101, 107, 95, 98]


def test_the_split_loses_no_digit_and_shares_none(digits):
    with np.load(module.EMBEDDED) as stored:
        every = {image.tobytes() for image in stored["images"]}
    train, held_out = (
        {(255 * image).round().to(torch.uint8).numpy().tobytes() for image in images}
        for images in (digits.train_images, digits.val_images)
    )
    assert not train & held_out
    assert train | held_out == every


def test_the_split_is_the_same_whatever_the_seed(digits):
    torch.manual_seed(123)
    again = embedded_digits()
    assert torch.equal(again.val_images, digits.val_images) and torch.equal(again.val_labels, digits.val_labels)


def test_embedded_digits_need_neither_torchvision_nor_a_network():
    code = (
        "import socket, sys\n"
        "def refuse(*args, **kwargs): raise OSError('no network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from headroom.data import embedded_digits\n"
        "assert len(embedded_digits().train_images) == 9000\n"
        "assert 'torchvision' not in sys.modules, 'torchvision takes over a second to import'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def write_idx(path, values):
    """A file in MNIST's format: two zero bytes, the type (8 = unsigned bytes), the dimensions, the bytes."""
    values = np.asarray(values, dtype=np.uint8)
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(header + values.tobytes())


@pytest.fixture
def tiny_mnist(tmp_path):
    """A folder laid out as MNIST's, with 30 training and 5 test digits."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, count in (("train", 30), ("t10k", 5)):
        write_idx(raw / f"{name}-images-idx3-ubyte", rng.integers(0, 256, (count, 28, 28)))
        write_idx(raw / f"{name}-labels-idx1-ubyte", np.arange(count) % 3)
    return tmp_path


def test_mnist_reads_files_that_are_there(tiny_mnist):
    full = mnist(tiny_mnist, download=False)
    assert full.train_images.shape == (27, 1, 28, 28) and full.val_images.shape == (3, 1, 28, 28)
    assert full.test_images.shape == (5, 1, 28, 28) and full.test_images.dtype == torch.float32
    assert full.test_images.max() <= 1
    assert full.test_labels.tolist() == [0, 1, 2, 0, 1]
    assert sorted(full.val_labels.tolist()) == [0, 1, 2]


def test_mnist_does_not_download_what_is_there(tiny_mnist, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: pytest.fail("it asked the network"))
    assert len(mnist(str(tiny_mnist)).train_images) == 27


@pytest.mark.parametrize("reason", [URLError("no route to host"), ConnectionResetError("reset"), TimeoutError("slow")])
def test_offline_mnist_says_how_to_go_on(tmp_path, monkeypatch, reason):
    def refuse(*args, **kwargs):
        raise reason

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(ConnectionError) as caught:
        mnist(tmp_path)
    message = str(caught.value)
    assert "offline" in message and "embedded_digits()" in message
    assert str(tmp_path / "MNIST" / "raw") in message and "train-images-idx3-ubyte" in message
    assert socket.getdefaulttimeout() is None, "the wait for other connections is left as it was"


def test_mnist_without_files_and_without_download_says_how_to_go_on(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"MNIST is not in .*download=False.*embedded_digits\(\)"):
        mnist(tmp_path, download=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", module.RAW_FILES)
def test_damaged_mnist_files_are_called_so(tiny_mnist, name):
    path = tiny_mnist / "MNIST" / "raw" / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"MNIST's files in .* are damaged: delete that folder"):
        mnist(tiny_mnist)


def test_a_full_disk_is_not_called_offline(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.makedirs", full)
    with pytest.raises(OSError, match="No space left on device"):
        mnist(tmp_path)
