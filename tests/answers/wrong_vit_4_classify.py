"""Wrong `classify`, written as students write it: its mistakes are on no list.

None of this is made from the exercise's own `variation`.
"""

import functools

import torch
import torch.nn.functional as F

from headroom.reference import ViT
from tests.answers import answers
from tests.answers.right_vit_4_classify import shipped


def read(images):
    with torch.no_grad():
        return shipped()(images.float()[:, None])


@functools.cache
def untrained():
    torch.manual_seed(3)
    return ViT().eval()


@answers("classify")
def always_three(images):
    return F.one_hot(torch.full((len(images),), 3), 10).float()


@answers("classify")
def at_random(images):
    return torch.rand(len(images), 10)


@answers("classify")
def never_trained(images):
    with torch.no_grad():
        return untrained()(images.float()[:, None])


@answers("classify")
def one_place_off(images):
    return read(images).roll(1, dims=1)


@answers("classify")
def labels_only(images):
    return read(images).argmax(1)


@answers("classify")
def classes_first(images):
    return read(images).T


@answers("classify")
def inverted(images):
    return -read(images)


@answers("classify")
def ink_on_the_wrong_side(images):
    return read(1 - images)


@answers("classify")
def turned(images):
    return read(images.mT)


@answers("classify")
def not_a_number(images):
    return read(images) * float("nan")


@answers("classify")
def an_eleventh_class(images):
    return F.pad(read(images), (0, 1))


@answers("classify")
def blurred(images):
    """Half of what the digits show is gone."""
    small = F.avg_pool2d(images.float()[:, None], 4)
    return read(F.interpolate(small, scale_factor=4)[:, 0])


@answers("classify")
def one_answer_for_the_batch(images):
    return read(images).mean(0, keepdim=True).expand(len(images), -1)


@answers("classify")
def softmax_over_the_batch(images):
    """Among many digits the right class mostly wins; a digit alone has 1 for every class."""
    return read(images).softmax(0)
