"""Digits and pictures: the embedded ones are MNIST's, the split holds, and the network is asked politely."""

import hashlib
import pickle
import socket
import struct
import subprocess
import sys
from urllib.error import URLError

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from headroom.data import Digits, cifar10, embedded_digits, image_folder, mnist, pictures, some_digits, ten_digits
from headroom.data import digits as module


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


def test_the_ten_digits_are_one_of_each_and_held_out(digits, monkeypatch):
    images, labels = ten_digits()
    assert images.shape == (10, 1, 28, 28) and labels.tolist() == list(range(10))
    held_out = {image.numpy().tobytes() for image in digits.val_images}
    assert all(image.numpy().tobytes() in held_out for image in images)
    monkeypatch.setenv("HEADROOM_SCALE", "small")
    assert torch.equal(ten_digits()[0], images)


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


# Some digits alone


def test_some_digits_are_all_of_their_classes_by_default(digits):
    some = some_digits(digits, [7, 0])
    for part in ("train", "val"):
        labels = getattr(digits, f"{part}_labels")
        chosen = (labels == 7) | (labels == 0)
        assert torch.equal(getattr(some, f"{part}_labels"), labels[chosen])
        assert torch.equal(getattr(some, f"{part}_images"), getattr(digits, f"{part}_images")[chosen])


def few_digits(per_class):
    """Digits told apart by their one pixel: `per_class` of each of the classes 0, 1, 3 to train on."""
    labels = torch.tensor([0, 1, 3] * per_class)
    images = torch.arange(len(labels), dtype=torch.float32).view(-1, 1, 1, 1)
    return Digits(images, labels, -images, labels)


@settings(max_examples=50, deadline=None)
@given(
    classes=st.lists(st.sampled_from([0, 1, 3]), min_size=1, unique=True),
    per_class=st.integers(1, 6),
    seed=st.integers(0, 2**40),
)
def test_few_labels_are_as_many_of_each_class_and_more_of_them_only_add(classes, per_class, seed):
    digits = few_digits(6)
    some = some_digits(digits, classes, per_class, seed)
    assert some.train_labels.bincount(minlength=4).tolist() == [per_class * (label in classes) for label in range(4)]
    kept = some.train_images.flatten().int().tolist()
    assert kept == sorted(kept), "they stay in their order"
    assert torch.equal(digits.train_labels[kept], some.train_labels)
    assert torch.equal(some.val_labels, digits.val_labels[torch.isin(digits.val_labels, torch.tensor(classes))])
    fewer = some_digits(digits, classes, 1, seed).train_images.flatten().int().tolist()
    assert set(fewer) <= set(kept)
    alone = some_digits(digits, classes[:1], per_class, seed).train_images.flatten().int().tolist()
    assert set(alone) <= set(kept), "the other classes change nothing"


def test_another_seed_keeps_other_digits(digits):
    first, again, second = (some_digits(digits, [5], 20, seed).train_images for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, second)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 2],), r"classes=\[0, 2\]: there is no class 2 in these digits, which have 0, 1, 3"),
        (([-1],), "there is no class -1"),
        (([4],), "there is no class 4"),
        (([1, 1],), r"classes=\[1, 1\] names a class twice"),
        (([],), "classes is empty"),
        (([1], 7), "per_class=7: class 1 has only 6 training images"),
        (([1], 0), "per_class=0: it must be at least 1 image"),
    ],
)
def test_digits_that_there_are_not_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        some_digits(few_digits(6), *arguments)


# Pictures


CLASSES = ["airplane", "automobile", "bird"]


@pytest.fixture
def cifar():
    """torchvision's own. Imported here: that takes a fifth of the time of collecting all tests."""
    from torchvision.datasets import CIFAR10

    return CIFAR10


@pytest.fixture
def tiny_cifar(tmp_path, monkeypatch, cifar):
    """A folder laid out as CIFAR-10's, with 5 × 6 training and 4 test pictures.

    torchvision takes only files with CIFAR's checksums, so it is told those of these.
    """
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    rng = np.random.default_rng(0)

    def write(name, content):
        (folder / name).write_bytes(pickle.dumps(content))
        return hashlib.md5((folder / name).read_bytes()).hexdigest()

    def batch(name, count):
        pixels = rng.integers(0, 256, (count, 3 * 32 * 32), dtype=np.uint8)
        return [name, write(name, {"data": pixels, "labels": [i % 3 for i in range(count)]})]

    monkeypatch.setattr(cifar, "train_list", [batch(f"data_batch_{i}", 6) for i in range(1, 6)])
    monkeypatch.setattr(cifar, "test_list", [batch("test_batch", 4)])
    checksum = write("batches.meta", {"label_names": CLASSES})
    monkeypatch.setattr(cifar, "meta", {**cifar.meta, "md5": checksum})
    return tmp_path


def test_the_files_of_cifar_are_those_that_torchvision_reads(cifar):
    listed = [name for name, _ in cifar.train_list + cifar.test_list]
    assert set(pictures.CIFAR_FILES) == {*listed, cifar.meta["filename"]}
    assert cifar.base_folder == "cifar-10-batches-py"


def test_cifar_reads_files_that_are_there(tiny_cifar, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: pytest.fail("it asked the network"))
    full = cifar10(tiny_cifar)
    assert full.train_images.shape == (27, 3, 32, 32) and full.val_images.shape == (3, 3, 32, 32)
    assert sorted(full.val_labels.tolist()) == [0, 1, 2]
    assert full.test_images.shape == (4, 3, 32, 32) and full.test_images.dtype == torch.float32
    assert full.test_labels.tolist() == [0, 1, 2, 0] and full.test_labels.dtype == torch.int64
    assert full.classes == tuple(CLASSES)
    stored = pickle.loads((tiny_cifar / "cifar-10-batches-py" / "test_batch").read_bytes())["data"]
    assert torch.equal(full.test_images, torch.from_numpy(stored).view(4, 3, 32, 32) / 255), "red, green, blue planes"


def test_offline_cifar_says_how_to_go_on(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(ConnectionError, match=r"CIFAR-10 cannot be downloaded.*offline.*embedded_digits\(\)") as caught:
        cifar10(tmp_path)
    assert "data_batch_5" in str(caught.value) and str(tmp_path / "cifar-10-batches-py") in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"CIFAR-10 is not in .*download=False"):
        cifar10(tmp_path / "nowhere", download=False)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", pictures.CIFAR_FILES)
def test_damaged_cifar_files_are_called_so(tiny_cifar, name):
    path = tiny_cifar / "cifar-10-batches-py" / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"CIFAR-10's files in .* are damaged: delete that folder"):
        cifar10(tiny_cifar, download=False)


@pytest.fixture
def folder(tmp_path):
    """Pictures of 9×6 and 6×9 pixels, red or blue in the middle and white at the ends, and one in shades of grey."""
    for split, count in (("train", 2), ("val", 1)):
        for name, colour in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.full((6, 9, 3), 255, dtype=np.uint8)
                pixels[:, 1:8] = colour
                Image.fromarray(pixels if i else pixels.transpose(1, 0, 2)).save(tmp_path / split / name / f"{i}.png")
    Image.new("L", (6, 6), 51).save(tmp_path / "val" / "red" / "grey.png")
    return tmp_path


def test_a_folder_of_pictures_is_cropped_in_the_middle_and_labelled_by_its_folders(folder):
    read = image_folder(str(folder), 6)
    assert read.classes == ("blue", "red")
    assert read.train_labels.tolist() == [0, 0, 1, 1] and read.val_labels.tolist() == [0, 1, 1]
    assert read.train_images.shape == (4, 3, 6, 6) and read.train_images.dtype == torch.float32
    expected = torch.zeros(4, 3, 6, 6)
    expected[:2, 2] = expected[2:, 0] = 1
    assert torch.equal(read.train_images, expected)
    torch.testing.assert_close(read.val_images[2], torch.full((3, 6, 6), 0.2))


def test_pictures_are_scaled_by_their_shorter_side(folder):
    small = image_folder(folder, 3)
    assert small.train_images.shape == (4, 3, 3, 3)
    # Scaled to 3×4 or 3×5 the white ends lie outside the middle but for what the smoothing carries in.
    assert small.train_images[2:, 0].min() == 1 and small.train_images[2:, 1, 1, 1].max() == 0


def test_a_folder_that_is_laid_out_otherwise_is_refused(folder):
    with pytest.raises(FileNotFoundError, match=r"has no folder 'train'; it must hold train/<class>/ and val/<class>/"):
        image_folder(folder / "train", 6)
    with pytest.raises(ValueError, match="image_size=0: it must be at least 1 pixel"):
        image_folder(folder, 0)
    (folder / "val" / "green").mkdir()
    with pytest.raises(FileNotFoundError, match="green"):
        image_folder(folder, 6)
    Image.new("RGB", (6, 6)).save(folder / "val" / "green" / "0.png")
    with pytest.raises(ValueError, match="the class 'green' is in only one of train and val"):
        image_folder(folder, 6)


def test_a_file_that_is_no_picture_is_named(folder):
    path = folder / "val" / "blue" / "0.png"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"val.blue.0\.png cannot be read as a picture"):
        image_folder(folder, 6)


def test_more_pictures_than_fit_into_memory_are_refused_before_they_are_read(folder):
    with pytest.raises(ValueError, match=r"image_size=20000: 7 pictures take 31 GiB as tensors; at most 8 GiB"):
        image_folder(folder, 20_000)


def test_the_ten_digits_are_the_first_held_out_of_their_class_but_for_a_three(digits):
    images, _ = ten_digits()
    for digit, image in enumerate(images):
        firsts = digits.val_images[digits.val_labels == digit]
        assert torch.equal(image, firsts[0]) == (digit != 3), digit
    assert torch.equal(images[3], digits.val_images[module.NEARLY_8]) and digits.val_labels[module.NEARLY_8] == 3


def test_of_the_images_of_a_class_in_their_order_every_tenth_is_held_out():
    labels = torch.tensor([0, 1] * 20)
    _, train_labels, held_out, held_labels = module.hold_out(torch.arange(40), labels)
    assert held_out.tolist() == [18, 19, 38, 39] and held_labels.tolist() == [0, 1, 0, 1]
    assert len(train_labels) == 36


def test_a_download_waits_twenty_seconds_and_no_longer(tiny_mnist, monkeypatch):
    waited = []
    monkeypatch.setattr(socket, "setdefaulttimeout", waited.append)
    mnist(tiny_mnist, download=False)
    assert waited == [20.0, None]
