"""What came after ViT: reduced attention, windows, encodings made from the image, as loops and libraries have them."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from headroom import reference as ref
from headroom.reference.patches import to_grid, to_tokens
from tests.peers import assert_same, block_pairs, float64, leaf, quick, seeds, shake, torch_block  # noqa: F401

# PVT


def sra_by_loops(attention, x):
    """Spatial-reduction attention, a sample, a square, a head and a query at a time."""
    side, squares = attention.side, attention.side // attention.reduction
    outputs = []
    for tokens in x:
        grid = tokens.reshape(side, side, -1)
        memory = []
        for i in range(squares):
            for j in range(squares):
                r = attention.reduction
                square = grid[i * r : (i + 1) * r, j * r : (j + 1) * r]  # (R, R, d_model)
                summed = attention.reduce.projection(square.permute(2, 0, 1).reshape(-1))
                memory.append(F.layer_norm(summed, summed.shape, attention.norm.gamma, attention.norm.beta))
        memory = torch.stack(memory)
        q, k, v = attention.w_q(tokens), attention.w_k(memory), attention.w_v(memory)
        d_head = q.size(-1) // attention.n_heads
        heads = []
        for h in range(attention.n_heads):
            part = slice(h * d_head, (h + 1) * d_head)
            rows = [
                (torch.stack([q[t, part] @ k[s, part] for s in range(len(k))]) / d_head**0.5).softmax(0) @ v[:, part]
                for t in range(len(q))
            ]
            heads.append(torch.stack(rows))
        outputs.append(attention.w_o(torch.cat(heads, dim=-1)))
    return torch.stack(outputs)


def test_spatial_reduction_attention_equals_loops():
    attention = shake(ref.SpatialReductionAttention(d_model=6, n_heads=2, side=4, reduction=2))
    x = leaf(2, 16, 6)
    output = attention(x)
    assert_same(output, sra_by_loops(attention, x), [(x, x), *((p, p) for p in attention.parameters())])


def test_its_reduction_is_a_strided_convolution():
    attention = shake(ref.SpatialReductionAttention(d_model=6, n_heads=2, side=4, reduction=2))
    x = torch.randn(3, 16, 6)
    memory = attention.norm(to_tokens(attention.reduce.as_convolution()(to_grid(x, 4))))
    torch.testing.assert_close(attention(x), ref.CrossAttention.forward(attention, x, memory))


def test_without_reduction_it_is_self_attention():
    attention = shake(ref.SpatialReductionAttention(d_model=6, n_heads=2, side=3, reduction=1))
    full = ref.MultiHeadSelfAttention(6, 2)
    full.load_state_dict(attention.state_dict())
    x, mask = torch.randn(2, 9, 6), ref.causal_mask(9)
    torch.testing.assert_close(attention(x), full(x))
    torch.testing.assert_close(attention(x, mask), full(x, mask))


def test_a_reduction_that_does_not_divide_the_grid_is_refused():
    with pytest.raises(ValueError, match="a grid of side=7 does not divide into squares of reduction=2"):
        ref.SpatialReductionAttention(6, 2, side=7, reduction=2)


def test_pvt_frames_its_images_in_zeros():
    pvt, framed = shake(ref.PVT()), ref.PVT(image_size=32)
    images = torch.randn(2, 1, 28, 28)
    framed.load_state_dict(pvt.state_dict())
    torch.testing.assert_close(framed(F.pad(images, (2, 2, 2, 2))), pvt(images), msg="the same border on every side")


# Swin


def window_attention_by_loops(attention, x):
    """Every token attends to those less than a window away whose window is its own, one query and head at a time."""
    side, window, shift = attention.side, attention.window, attention.shift

    def place(token):
        return divmod(token, side)

    def home(token):  # windows start at `shift`, and again a window later; those before it are cut off by the edge
        return tuple((at - shift) // window for at in place(token))

    outputs = []
    for tokens in x:
        q, k, v = attention.w_q(tokens), attention.w_k(tokens), attention.w_v(tokens)
        d_head = q.size(-1) // attention.n_heads
        rows = []
        for i in range(side**2):
            others = [j for j in range(side**2) if home(j) == home(i)]
            heads = []
            for h in range(attention.n_heads):
                part = slice(h * d_head, (h + 1) * d_head)
                scores = []
                for j in others:
                    down, across = (a - b + window - 1 for a, b in zip(place(i), place(j), strict=True))
                    scores.append(q[i, part] @ k[j, part] / d_head**0.5 + attention.bias[h, down, across])
                heads.append(torch.stack(scores).softmax(0) @ v[others, part])
            rows.append(attention.w_o(torch.cat(heads)))
        outputs.append(torch.stack(rows))
    return torch.stack(outputs)


SHIFTS = [(4, 2, 0), (4, 2, 1), (6, 3, 1), (6, 3, 2), (3, 3, 0)]


@pytest.mark.parametrize("side, window, shift", SHIFTS)
def test_window_attention_equals_loops(side, window, shift):
    attention = shake(ref.WindowAttention(d_model=4, n_heads=2, side=side, window=window, shift=shift))
    x = leaf(1, side**2, 4)
    used = [p for n, p in attention.named_parameters() if n != "w_k.bias"]
    assert_same(attention(x), window_attention_by_loops(attention, x), [(x, x), *((p, p) for p in used)])


@pytest.mark.parametrize("side, window, shift", SHIFTS)
def test_window_attention_equals_torchvisions(side, window, shift):
    shifted_window_attention = pytest.importorskip("torchvision.models.swin_transformer").shifted_window_attention
    ours = shake(ref.WindowAttention(d_model=12, n_heads=3, side=side, window=window, shift=shift))
    x = leaf(2, side**2, 12)
    maps = (ours.w_q, ours.w_k, ours.w_v)
    theirs = shifted_window_attention(
        x.unflatten(1, (side, side)),
        torch.cat([m.weight for m in maps]),
        ours.w_o.weight,
        ours.bias[:, ours.apart[..., 0], ours.apart[..., 1]][None],
        [window, window],
        ours.n_heads,
        [shift, shift],
        qkv_bias=torch.cat([m.bias for m in maps]),
        proj_bias=ours.w_o.bias,
        training=False,
    )
    used = [p for n, p in ours.named_parameters() if n != "w_k.bias"]
    assert_same(ours(x), theirs.flatten(1, 2), [(x, x), *((p, p) for p in used)])


@quick
@given(seed=seeds, side=st.integers(1, 4), heads=st.integers(1, 3))
def test_a_window_that_covers_all_is_full_attention(seed, side, heads):
    torch.manual_seed(seed)
    attention = shake(ref.WindowAttention(4 * heads, heads, side=side, window=side))
    with torch.no_grad():
        attention.bias.fill_(torch.randn(()))  # the same for all: the softmax does not see it
    full = ref.MultiHeadSelfAttention(4 * heads, heads)
    full.load_state_dict(attention.state_dict(), strict=False)
    x = torch.randn(2, side**2, 4 * heads)
    with ref.attention_maps(attention) as maps, ref.attention_maps(full) as expected:
        torch.testing.assert_close(attention(x), full(x))
    torch.testing.assert_close(maps["attention"][:, :, 0], expected["attention"])


@quick
@given(seed=seeds, window=st.integers(2, 3), across=st.integers(2, 3), data=st.data())
def test_a_token_hears_its_own_window_and_no_stranger(seed, window, across, data):
    """Change one token: what changes lies in its window, in the image and not around its edge."""
    torch.manual_seed(seed)
    side, shift = window * across, data.draw(st.integers(0, window - 1))
    changed = data.draw(st.integers(0, side**2 - 1))
    attention = shake(ref.WindowAttention(4, 2, side=side, window=window, shift=shift))
    x = torch.randn(1, side**2, 4)
    other = x.clone()
    other[:, changed] += torch.randn(4)
    heard = (attention(other) - attention(x)).abs().amax(dim=(0, 2)) > 1e-12
    homes = (torch.arange(side) - shift).div(window, rounding_mode="floor")
    row, column = divmod(changed, side)
    expected = (homes == homes[row])[:, None] & (homes == homes[column])
    assert torch.equal(heard, expected.flatten())


def test_a_shift_lets_windows_meet():
    still = shake(ref.WindowAttention(4, 2, side=4, window=2))
    moved = ref.WindowAttention(4, 2, side=4, window=2, shift=1)
    moved.load_state_dict(still.state_dict())
    x = torch.randn(1, 16, 4)
    assert not torch.allclose(still(x), moved(x))
    other = x.clone()
    other[:, 0] += 1.0
    reached = [(attention(other) - attention(x)).abs().amax(dim=-1) > 1e-12 for attention in (still, moved)]
    both = (moved(still(other)) - moved(still(x))).abs().amax(dim=-1) > 1e-12
    assert both.sum() > max(r.sum() for r in reached)


def test_a_mask_of_ones_own_comes_beside_the_windows():
    attention = shake(ref.WindowAttention(4, 2, side=4, window=2, shift=1))
    x, mask = torch.randn(1, 16, 4), torch.eye(4, dtype=torch.bool)
    with ref.attention_maps(attention) as maps:
        attention(x, mask)
    torch.testing.assert_close(maps["attention"][:, 0], torch.eye(4).expand(1, 4, 2, 4, 4))


@quick
@given(seed=seeds, window=st.integers(1, 3), down=st.integers(1, 3), across=st.integers(1, 3))
def test_splitting_into_windows_is_undone_by_merging(seed, window, down, across):
    torch.manual_seed(seed)
    grid = torch.randn(2, window * down, window * across, 5)
    windows = ref.split_windows(grid, window)
    assert windows.shape == (2, down * across, window**2, 5)
    assert torch.equal(windows[:, -1], grid[:, -window:, -window:].flatten(1, 2))
    assert torch.equal(ref.merge_windows(windows, window * down), grid)


def test_a_grid_that_does_not_divide_into_windows_is_refused():
    with pytest.raises(ValueError, match="a grid of side=7 does not divide into windows of window=2"):
        ref.WindowAttention(4, 2, side=7, window=2)
    with pytest.raises(ValueError, match="a grid of 4×6 tokens does not divide into windows of window=4"):
        ref.split_windows(torch.randn(1, 4, 6, 3), 4)


def test_swin_shifts_every_second_block():
    shifts = [[block.attention.shift for block in stage.blocks] for stage in ref.Swin().stages]
    assert shifts == [[0, 2], [0, 0]], "one window over the whole grid has nowhere to go"


# CPVT


def test_the_position_encoding_generator_equals_loops():
    peg = shake(ref.PositionEncodingGenerator(d_model=5))
    x = leaf(2, 12, 5)
    weight, bias = peg.convolution.weight, peg.convolution.bias  # (d_model, 1, 3, 3), (d_model,)
    rows = []
    for row in range(3):
        for column in range(4):
            total = bias.expand(2, 5)
            for i in range(3):
                for j in range(3):
                    r, c = row + i - 1, column + j - 1
                    if 0 <= r < 3 and 0 <= c < 4:
                        total = total + weight[:, 0, i, j] * x[:, 4 * r + c]
            rows.append(x[:, 4 * row + column] + total)
    assert_same(peg(x, rows=3), torch.stack(rows, dim=1), [(x, x), (weight, weight), (bias, bias)])


def test_cpvt_equals_a_mean_pooled_vit_with_the_generator_between_its_blocks():
    cpvt = shake(ref.CPVT(patch_size=4, channels=2, n_classes=3, d_model=12, n_layers=2, n_heads=3, d_ff=17))
    first, second = (torch_block(block) for block in cpvt.encoder.blocks)
    images = leaf(2, 2, 8, 12)
    x = first(cpvt.embed(images))
    x = second(cpvt.positions(x, rows=2))
    x = F.layer_norm(x, (12,), cpvt.encoder.norm.gamma, cpvt.encoder.norm.beta)
    logits = cpvt(images)
    peg = cpvt.positions.convolution.weight
    assert_same(logits, cpvt.head(x.mean(1)), [(images, images), (peg, peg)])


def test_cpvt_takes_images_of_any_size_and_sees_the_order_of_patches():
    cpvt = shake(ref.CPVT())
    assert cpvt(torch.randn(2, 1, 35, 42)).shape == (2, 10)
    images = torch.randn(2, 1, 28, 28)
    mixed = F.fold(ref.patchify(images, 7)[:, torch.randperm(16)].transpose(1, 2), 28, kernel_size=7, stride=7)
    assert not torch.allclose(cpvt(mixed), cpvt(images))
    with torch.no_grad():
        cpvt.positions.convolution.weight.zero_()
    torch.testing.assert_close(cpvt(mixed), cpvt(images), msg="without the generator, order is lost")
    with pytest.raises(ValueError, match="an image of 30×30 does not divide into patches of patch_size=7"):
        cpvt(torch.randn(1, 1, 30, 30))
