"""Colour pictures for those who have them: CIFAR-10 through torchvision, and folders laid out as ImageNet's."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from tqdm.auto import tqdm

from headroom.data.digits import Digits, hold_out, unit_images
from headroom.data.downloads import DOWNLOADS, read_or_download

if TYPE_CHECKING:
    from torchvision.datasets import ImageFolder

CIFAR_FILES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")
MOST_BYTES = 8 * 2**30  # of a folder's pictures as tensors: more asks for a loop that reads them from the disk


@dataclass(frozen=True)
class Pictures(Digits):
    """Pictures of anything, with the attributes of `Digits`, so that all that trains on digits trains on them.

    Images are float32 in [0, 1], `(n, 3, height, width)`: red, green, blue. Labels are int64, `(n,)`, and
    `classes[label]` is the name of a label's class.
    """

    classes: tuple[str, ...]


@dataclass(frozen=True)
class FullPictures(Pictures):
    """The same with test pictures, to be looked at once everything is chosen."""

    test_images: Tensor
    test_labels: Tensor


def cifar10(root: str | Path | None = None, download: bool = True) -> FullPictures:
    """CIFAR-10: 60,000 pictures of 32×32 pixels in ten classes, through torchvision.

    Of its 50,000 training pictures, a tenth is held out to validate on, by the rule of the digits; 10,000 are its test
    pictures. As tensors they take 740 MB.

    Args:
        root: the folder that holds `cifar-10-batches-py/`, or shall hold it; by default one inside the course,
            which git ignores. About 350 MB with the archive that comes from the network.
        download: fetch the files if they are missing.

    Raises:
        ConnectionError: the files are missing and cannot be fetched.
        FileNotFoundError: the files are missing and `download` is False.
        ValueError: the files are there but damaged.

    Source: Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images",
    https://www.cs.toronto.edu/~kriz/cifar.html.
    """
    from torchvision.datasets import CIFAR10  # takes over a second to import, and only who wants pictures needs it

    root = DOWNLOADS if root is None else Path(root).expanduser()

    def read() -> tuple[CIFAR10, CIFAR10]:
        return CIFAR10(root, train=True, download=download), CIFAR10(root, train=False, download=False)

    train, test = read_or_download("CIFAR-10", root / "cifar-10-batches-py", CIFAR_FILES, read, download)
    train_images, test_images = (  # torchvision has the channels last
        unit_images(torch.from_numpy(part.data).permute(0, 3, 1, 2).contiguous()) for part in (train, test)
    )
    split = hold_out(train_images, torch.tensor(train.targets))
    return FullPictures(*split, tuple(train.classes), test_images, torch.tensor(test.targets))


def image_folder(root: str | Path, image_size: int) -> Pictures:
    """Your own pictures, laid out as ImageNet's: `root/train/<class>/*.jpg` and `root/val/<class>/*.jpg`.

    Each picture is scaled until its shorter side is `image_size` long; of the longer side, the middle is kept.
    All are read at once and held as tensors, which suits some ten thousand small ones. For more, take
    `torchvision.datasets.ImageFolder` with a DataLoader, and a training loop that reads from it.

    Args:
        root: the folder with `train` and `val` in it. The classes' folders have the same names in both; labels
            count them in alphabetical order.
        image_size: height and width of the results, in pixels.

    Raises:
        FileNotFoundError: `root` has no folder `train` or `val`, or a class has no picture.
        ValueError: the two have not the same classes, a file is no picture, the tensors would take over 8 GiB, or
            `image_size` < 1.
    """
    from torchvision.datasets import ImageFolder  # takes over a second to import

    if image_size < 1:
        raise ValueError(f"image_size={image_size}: it must be at least 1 pixel")
    root = Path(root).expanduser()
    for split in ("train", "val"):
        if not (root / split).is_dir():
            raise FileNotFoundError(f"{root} has no folder {split!r}; it must hold train/<class>/ and val/<class>/")
    train, val = ImageFolder(root / "train"), ImageFolder(root / "val")
    if odd := sorted(set(train.classes) ^ set(val.classes)):
        raise ValueError(f"{root}: the class {odd[0]!r} is in only one of train and val; both must have all classes")
    needed = 4 * 3 * image_size**2 * (len(train) + len(val))
    if needed > MOST_BYTES:
        raise ValueError(
            f"image_size={image_size}: {len(train) + len(val)} pictures take {needed / 2**30:.0f} GiB as tensors; "
            f"at most {MOST_BYTES / 2**30:.0f} GiB are read. Choose a smaller image_size, or read them as they are "
            "needed, with torchvision.datasets.ImageFolder and a DataLoader"
        )
    return Pictures(*_read(train, image_size), *_read(val, image_size), tuple(train.classes))


def _read(folder: "ImageFolder", image_size: int) -> tuple[Tensor, Tensor]:
    """All pictures of a torchvision `ImageFolder`, `(n, 3, image_size, image_size)`, and their labels, `(n,)`."""
    from torchvision.transforms import functional as F

    images = torch.empty(len(folder), 3, image_size, image_size)
    # The bar appears when there is something to wait for.
    for i, (path, _) in enumerate(tqdm(folder.samples, desc="reading pictures", leave=False, delay=2)):
        try:
            picture = folder.loader(path)
        except (OSError, SyntaxError) as error:
            raise ValueError(f"{path} cannot be read as a picture: {error}") from error
        images[i] = unit_images(F.pil_to_tensor(F.center_crop(F.resize(picture, [image_size]), [image_size])))
    return images, torch.tensor(folder.targets)
