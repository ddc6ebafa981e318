"""Wrong answers to lab 7 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import torch
from torch import nn

from tests.answers import answers, right_vit
from tests.answers.detaching import without_gradient_for
from tests.answers.right_vit_4_classify import classify


@answers("patchify")
def squeezed_patches(images, patch_size):
    """Axes of length 1 are lost: wrong for a single image, and for a single patch."""
    return right_vit.reshape_permute(images, patch_size).squeeze()


@answers("patchify")
def grid_read_down_where_wide(images, patch_size):
    """Wide images are read column by column."""
    h, w = (n // patch_size for n in images.shape[2:])
    patches = right_vit.reshape_permute(images, patch_size)
    return patches.unflatten(1, (h, w)).transpose(1, 2).flatten(1, 2) if w > h else patches


@answers("patchify")
def last_column_repeated(images, patch_size):
    """The last pixel of each patch is that of the one before it, in the last patch only."""
    patches = right_vit.reshape_permute(images, patch_size).clone()
    patches[:, -1, -1] = patches[:, -1, -2]
    return patches


@answers("PatchEmbedding")
class StrideOfTwo(nn.Module):
    """A convolution whose step is 2, whatever the patches' size."""

    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.projection = nn.Conv2d(channels, d_model, patch_size, stride=2)

    def forward(self, images):
        return self.projection(images).flatten(2).mT


@answers("PatchEmbedding")
class SqueezedImages(right_vit.LinearOfPatches):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single patch."""

    def forward(self, images):
        return super().forward(images).squeeze()


@answers("PatchEmbedding")
class ColourStretched(right_vit.LinearOfPatches):
    """Colour images are brought to the range from −1 to 1 first."""

    def forward(self, images):
        return super().forward(images if images.size(1) == 1 else 2 * images - 1)


@answers("ViT")
class SqueezedLogits(right_vit.Plain):
    """The first axis is lost for a batch of one."""

    def forward(self, images):
        return super().forward(images).squeeze(0)


@answers("ViT")
class ColourAveraged(right_vit.Plain):
    """Colour images are read as grey ones, three times over."""

    def forward(self, images):
        return super().forward(images.mean(1, keepdim=True).expand_as(images))


@answers("ViT")
class ClassPositionDetached(right_vit.Plain):
    """The outputs are right; the first row of the table of positions is not learned."""

    def forward(self, images):
        x = self.embed(images)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = x + without_gradient_for(self.positions, (torch.arange(len(self.positions)) == 0)[:, None])
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


@answers("classify")
def fours_and_nines(images):
    """Two classes are exchanged."""
    return classify(images)[:, [0, 1, 2, 3, 9, 5, 6, 7, 8, 4]]


@answers("classify")
def upper_half(images):
    """Only the upper half of each image is read."""
    return classify(images * (torch.arange(28) < 14)[:, None])


@answers("classify")
def single_digit_squeezed(images):
    """The first axis is lost for a single digit."""
    return classify(images).squeeze(0)


@answers("classify")
def every_eighth_unread(images):
    """Every eighth image gets zeros."""
    return classify(images) * (torch.arange(len(images)) % 8 > 0)[:, None]
