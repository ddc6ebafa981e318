"""Wrong `patchify`, as students write them; `answers` names their mistakes, or none that is on a list.

None of this is made from the exercise's own `variation`.
"""

import torch
import torch.nn.functional as F
from einops import rearrange

from tests.answers import answers
from tests.answers.right_vit import reshape_permute

# --- patchify: one known mistake each ---


def cut_as(pattern):
    """patchify by einops, in whatever order the pattern says."""

    def cut(images, patch_size):
        return rearrange(images, pattern, p1=patch_size, p2=patch_size)

    return cut


@answers("patchify", "plain_reshape")
def reshaped(images, patch_size):
    b, c, h, w = images.shape
    return images.reshape(b, (h // patch_size) * (w // patch_size), c * patch_size**2)


@answers("patchify", "plain_reshape")
def six_axes_and_no_permute(images, patch_size):
    b, c, h, w = images.shape
    x = images.view(b, c, h // patch_size, patch_size, w // patch_size, patch_size)
    return x.reshape(b, -1, c * patch_size * patch_size)


@answers("patchify", "strided")
def size_before_number(images, patch_size):
    b, c, h, w = images.shape
    x = images.view(b, c, patch_size, h // patch_size, patch_size, w // patch_size)
    return x.permute(0, 3, 5, 1, 2, 4).reshape(b, -1, c * patch_size**2)


@answers("patchify", "column_major")
def columns_outside(images, patch_size):
    patches = []
    for x in range(0, images.shape[3], patch_size):
        for y in range(0, images.shape[2], patch_size):
            patches.append(images[:, :, y : y + patch_size, x : x + patch_size].flatten(1))
    return torch.stack(patches, dim=1)


@answers("patchify", "transposed")
def permute_with_5_before_3(images, patch_size):
    b, c, h, w = images.shape
    x = images.reshape(b, c, h // patch_size, patch_size, w // patch_size, patch_size)
    return x.permute(0, 2, 4, 1, 5, 3).flatten(3).flatten(1, 2)


@answers("patchify", "channels_last")
def as_vit_pytorch(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (h w) (p1 p2 c)")(images, patch_size)


@answers("patchify", "channels_between")
def channels_in_the_middle(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (h w) (p1 c p2)")(images, patch_size)


@answers("patchify", "channels_mixed")
def unfolded_and_reshaped(images, patch_size):
    b, c = images.shape[:2]
    x = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return x.reshape(b, -1, c * patch_size**2)


@answers("patchify", "channels_apart")
def a_token_per_channel(images, patch_size):
    x = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return x.reshape(images.shape[0], -1, patch_size**2)


@answers("patchify", "one_channel")
def grey_only(images, patch_size):
    b, _, h, w = images.shape
    x = images[:, 0].reshape(b, h // patch_size, patch_size, w // patch_size, patch_size)
    return x.transpose(2, 3).reshape(b, -1, patch_size**2)


@answers("patchify", "square_assumed")
def height_twice(images, patch_size):
    b, c, h, _ = images.shape
    n = h // patch_size
    x = images.reshape(b, c, n, patch_size, n, patch_size).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, n * n, c * patch_size**2)


@answers("patchify", "detached")
def from_data(images, patch_size):
    return reshape_permute(images.data, patch_size)


@answers("patchify", "not_flattened")
def squares(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (h w) c p1 p2")(images, patch_size)


@answers("patchify", "grid_kept")
def a_grid_of_patches(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b h w (c p1 p2)")(images, patch_size)


@answers("patchify", "patches_last")
def unfold_as_it_comes(images, patch_size):
    return F.unfold(images, patch_size, stride=patch_size)


@answers("patchify", "patches_first")
def stacked_in_front(images, patch_size):
    rows = images.split(patch_size, dim=2)
    return torch.stack([patch.flatten(1) for row in rows for patch in row.split(patch_size, dim=3)])


# --- two at once ---


@answers("patchify", "column_major", "transposed")
def width_before_height(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (w h) (c p2 p1)")(images, patch_size)


@answers("patchify", "patches_last", "channels_last")
def keras_and_unfold(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (p1 p2 c) (h w)")(images, patch_size)


@answers("patchify", "column_major", "channels_last")
def loop_over_columns_of_pictures(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (w h) (p1 p2 c)")(images, patch_size)


# --- patchify: mistakes on no list ---


@answers("patchify")
def unchanged(images, patch_size):
    return images


@answers("patchify")
def zeros(images, patch_size):
    return torch.zeros_like(reshape_permute(images, patch_size))


@answers("patchify")
def mirrored(images, patch_size):
    return reshape_permute(images.flip(-1), patch_size)


@answers("patchify")
def from_the_end(images, patch_size):
    return reshape_permute(images, patch_size).flip(1)


@answers("patchify")
def first_patch_for_all(images, patch_size):
    patches = reshape_permute(images, patch_size)
    return patches[:, :1].expand_as(patches)


@answers("patchify")
def batch_scrambled(images, patch_size):
    """The batch is merged with the rows of patches and cut again in another order."""
    x = cut_as("b c (h p1) (w p2) -> (h w b) (c p1 p2)")(images, patch_size)
    return x.reshape(images.shape[0], -1, x.shape[-1])


@answers("patchify")
def centred(images, patch_size):
    patches = reshape_permute(images, patch_size)
    return patches - patches.mean(-1, keepdim=True)


@answers("patchify")
def half_a_step(images, patch_size):
    windows = F.unfold(images, patch_size, stride=max(1, patch_size // 2)).transpose(1, 2)
    count = reshape_permute(images, patch_size).shape[1]
    return windows[:, :count]


@answers("patchify")
def averaged(images, patch_size):
    """The mean of each patch, repeated to the right width."""
    patches = reshape_permute(images, patch_size)
    return patches.mean(-1, keepdim=True).expand_as(patches)


@answers("patchify")
def rounded(images, patch_size):
    return reshape_permute(images, patch_size).round()


ORDERS = {}


@answers("patchify")
def order_by_number_of_pixels(images, patch_size):
    """A wide image gets the order that was made for a tall one."""
    b, c, h, w = images.shape
    key = c, h * w, patch_size
    if key not in ORDERS:
        numbers = torch.arange(c * h * w).view(1, c, h, w)
        ORDERS[key] = reshape_permute(numbers, patch_size)[0]
    return images.reshape(b, -1)[:, ORDERS[key]]
