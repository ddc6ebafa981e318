"""The decoder's side of the reference: against torch in float64, against slow loops, and by its properties."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from headroom import reference as ref
from tests.peers import assert_same, float64, leaf, quick, seeds, shake, torch_attention, torch_block  # noqa: F401

START, END = 1, 2
VARIANTS = {
    "pre-norm": {},
    "post-norm": {"pre_norm": False},
    "rotary": {"rotary": True},
    "RMSNorm": {"norm": ref.RMSNorm},
}


def transformer(**options):
    """A small one in eval mode, with 9 source tokens, 7 target tokens, and every parameter away from its start."""
    return shake(ref.Transformer(9, 7, d_model=12, n_layers=2, n_heads=3, d_ff=17, max_tokens=20, **options)).eval()


def pairs(batch=3, source_tokens=6, tokens=5):
    """Source and target ids, and the mask of sources of different lengths."""
    lengths = torch.randint(1, source_tokens + 1, (batch,))
    source, target = torch.randint(0, 9, (batch, source_tokens)), torch.randint(0, 7, (batch, tokens))
    return source, target, ref.padding_mask(lengths, source_tokens)


# Attention by the fused kernel


@pytest.mark.parametrize("n_keys", [ref.attention.SHORT - 1, ref.attention.SHORT])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_models_says_what_equation_1_says_with_gradients_and_without(n_keys, masked):
    q, k, v = leaf(2, 3, 5, 4), leaf(2, 3, n_keys, 4), leaf(2, 3, n_keys, 7)
    mask = torch.rand(2, 1, 5, n_keys) < 0.5 if masked else None
    expected, _ = ref.scaled_dot_product_attention(q, k, v, mask)
    leaves = [(x, x) for x in (q, k, v)] if expected.isfinite().all() else []
    without = ref.Attention()(q.detach(), k.detach(), v.detach(), mask)
    torch.testing.assert_close(without, expected.detach(), equal_nan=True)
    if leaves:
        assert_same(ref.Attention()(q, k, v, mask), expected, leaves)


def test_in_the_kernel_too_a_query_without_keys_gets_nan_and_a_wrong_mask_its_sentence():
    attend, q, k = ref.Attention(), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4)
    mask = torch.ones(5, 6, dtype=torch.bool)
    mask[2] = False
    nan = attend(q, k, k, mask).isnan()
    assert nan[:, :, 2].all() and nan.sum() == nan[:, :, 2].numel()
    with pytest.raises(TypeError, match=r"it must be torch\.bool"):
        attend(q, k, k, mask.float())
    with pytest.raises(ValueError, match="does not broadcast to the scores' "):
        attend(q, k, k, mask[:, 1:])


# Maps


MAPPED = {
    "attention": (lambda: ref.MultiHeadSelfAttention(12, 3), {"attention": 1}),
    "block": (lambda: ref.EncoderBlock(12, 3, 17), {"attention": 1}),
    "encoder": (lambda: ref.Encoder(4, 12, 3, 17), {"blocks.attention": 4}),
    "blocks in a list of one's own": (
        lambda: nn.Sequential(nn.Linear(12, 12), nn.Sequential(*(ref.EncoderBlock(12, 3, 17) for _ in range(3)))),
        {"1.attention": 3},
    ),
}


@pytest.mark.parametrize("make, expected", MAPPED.values(), ids=MAPPED)
def test_maps_are_those_of_every_layer_under_the_path_of_their_stack(make, expected):
    model, x = make(), torch.randn(2, 5, 12)
    with ref.attention_maps(model) as maps:
        out = model(x)
    assert torch.equal(out, model(x)), "whoever looks changes nothing"
    assert {name: tuple(weights.shape) for name, weights in maps.items()} == {
        name: (2, layers, 3, 5, 5) for name, layers in expected.items()
    }
    layers = [module for module in model.modules() if isinstance(module, ref.MultiHeadSelfAttention)]
    heard = []
    for layer in layers:
        layer.register_forward_pre_hook(lambda layer, args: heard.append((layer, args[0])))
    model(x)
    for (layer, read), weights in zip(heard, next(iter(maps.values())).unbind(1), strict=True):
        q, k = layer.split_heads(layer.w_q(read)), layer.split_heads(layer.w_k(read))
        torch.testing.assert_close(weights, (q @ k.transpose(-2, -1) / 2).softmax(-1))
    assert not any(module._forward_hooks for module in model.modules())


def test_maps_stop_when_the_model_fails_and_are_not_kept_afterwards():
    encoder = ref.Encoder(2, 12, 3, 17)
    with pytest.raises(RuntimeError), ref.attention_maps(encoder) as maps:
        encoder(torch.randn(2, 5, 11))
    encoder(torch.randn(2, 5, 12))
    assert maps == {}
    assert not any(module._forward_hooks for module in encoder.modules())


def test_a_training_step_keeps_no_maps(monkeypatch):
    monkeypatch.setattr(ref.Attention, "weights", None)
    for model, inputs in (
        (ref.ViT(), (torch.randn(2, 1, 28, 28),)),
        (ref.DeiT(), (torch.randn(2, 1, 28, 28),)),
        (ref.CPVT(), (torch.randn(2, 1, 28, 28),)),
        (ref.PVT(), (torch.randn(2, 1, 28, 28),)),
        (ref.Swin(), (torch.randn(2, 1, 28, 28),)),
        (transformer().train(), pairs()),
    ):
        model(*inputs).sum().backward()


# Cross-attention


@pytest.mark.parametrize("masked", [False, True])
def test_cross_attention_equals_torchs(masked):
    ours = shake(ref.CrossAttention(d_model=12, n_heads=3))
    theirs = torch_attention(ours)
    x, memory = leaf(2, 5, 12), leaf(2, 6, 12)
    mask = ref.padding_mask(torch.tensor([6, 2]), 6) if masked else None
    hidden = None if mask is None else ~mask[:, 0, 0]
    with ref.attention_maps(ours) as maps:
        out = ours(x, memory, mask)
    weights = maps["attention"][:, 0]
    expected, expected_weights = theirs(x, memory, memory, key_padding_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(weights, expected_weights)
    assert_same(out, expected, [(x, x), (memory, memory), (ours.w_o.weight, theirs.out_proj.weight)])
    torch.testing.assert_close(ours(x, memory, mask), out)
    if masked:
        assert (weights.masked_select(~mask) == 0).all()


def test_self_attention_is_attention_with_itself_as_memory():
    own = ref.MultiHeadSelfAttention(12, 3)
    cross = ref.CrossAttention(12, 3)
    cross.load_state_dict(own.state_dict())
    x = torch.randn(2, 5, 12)
    assert torch.equal(own(x), cross(x, x))


@pytest.mark.parametrize("n_heads", [0, 5])
def test_heads_that_do_not_divide_the_width_are_refused(n_heads):
    with pytest.raises(ValueError, match=f"d_model=12 does not divide into n_heads={n_heads} equal heads"):
        ref.CrossAttention(12, n_heads)


# Norms


def test_rms_norm_equals_torchs():
    ours, theirs = shake(ref.RMSNorm(7, eps=1e-3)), nn.RMSNorm(7, eps=1e-3)
    theirs.load_state_dict({"weight": ours.gamma})
    x = (torch.randn(2, 3, 7) + 5).requires_grad_()
    assert_same(ours(x), theirs(x), [(x, x), (ours.gamma, theirs.weight)])


def test_batch_norm_over_tokens_equals_torchs_while_training_and_after():
    ours, theirs = shake(ref.BatchNorm(7, eps=1e-3, momentum=0.2)), nn.BatchNorm1d(7, eps=1e-3, momentum=0.2)
    theirs.load_state_dict({"weight": ours.gamma, "bias": ours.beta}, strict=False)
    for _ in range(3):
        x = (3 * torch.randn(4, 5, 7) + 2).requires_grad_()
        expected = theirs(x.transpose(1, 2)).transpose(1, 2)  # torch wants (batch, features, tokens)
        assert_same(ours(x), expected, [(x, x), (ours.gamma, theirs.weight), (ours.beta, theirs.bias)])
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))


@quick
@given(seed=seeds, kind=st.sampled_from([ref.LayerNorm, ref.RMSNorm]))
def test_a_tokens_norm_knows_no_other_token_and_batch_norm_does(seed, kind):
    torch.manual_seed(seed)
    x = torch.randn(3, 4, 6)
    other = x.clone()
    other[1:] = torch.randn(2, 4, 6)
    torch.testing.assert_close(kind(6)(x)[0], kind(6)(other)[0])
    assert not torch.allclose(ref.BatchNorm(6)(x)[0], ref.BatchNorm(6)(other)[0])


# Positions


def test_a_grids_encoding_is_one_line_beside_another():
    table = ref.sinusoidal_encoding_2d(rows=3, columns=5, d_model=8)
    assert table.shape == (15, 8)
    for row, column in itertools.product(range(3), range(5)):
        expected = torch.cat([ref.sinusoidal_encoding(3, 4)[row], ref.sinusoidal_encoding(5, 4)[column]])
        torch.testing.assert_close(table[row * 5 + column], expected)
    with pytest.raises(ValueError, match="d_model=6 must be divisible by 4"):
        ref.sinusoidal_encoding_2d(3, 5, 6)


def test_rotation_is_a_complex_number_times_a_phase():
    x = leaf(2, 3, 7, 6)
    omega = 10000 ** (-torch.arange(0, 6, 2) / 6)
    phase = torch.polar(torch.ones(7, 3), (4 + torch.arange(7.0))[:, None] * omega)
    expected = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (3, 2))) * phase).flatten(-2)
    assert_same(ref.rotate(x, start=4), expected, [(x, x)])


@quick
@given(seed=seeds, shift=st.integers(0, 40), d_head=st.sampled_from([2, 4, 10]))
def test_rotated_products_see_only_the_distance(seed, shift, d_head):
    torch.manual_seed(seed)
    q, k = torch.randn(2, 6, d_head), torch.randn(2, 6, d_head)
    here = ref.rotate(q) @ ref.rotate(k).transpose(-2, -1)
    there = ref.rotate(q, shift) @ ref.rotate(k, shift).transpose(-2, -1)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-10)
    torch.testing.assert_close(ref.rotate(q).norm(dim=-1), q.norm(dim=-1))
    torch.testing.assert_close(here.diagonal(dim1=1, dim2=2), (q * k).sum(-1))


def test_rotary_attention_tells_orders_apart_and_refuses_odd_heads():
    plain, rotary = ref.MultiHeadSelfAttention(12, 3), ref.RotarySelfAttention(12, 3)
    x, order = torch.randn(1, 5, 12), torch.tensor([3, 1, 4, 0, 2])
    torch.testing.assert_close(plain(x[:, order]), plain(x)[:, order])
    assert not torch.allclose(rotary(x[:, order]), rotary(x)[:, order])
    with pytest.raises(ValueError, match="d_head=3 must be even"):
        ref.RotarySelfAttention(12, 4)
    with pytest.raises(ValueError, match="d_head=3 must be even"):
        ref.rotate(torch.randn(2, 3))


# Blocks and stacks, pre- and post-norm


@pytest.mark.parametrize("pre_norm", [True, False])
def test_an_encoder_block_equals_torchs_either_way(pre_norm):
    ours = shake(ref.EncoderBlock(12, 3, 17, pre_norm=pre_norm))
    theirs = torch_block(ours)
    theirs.norm_first = pre_norm
    x = leaf(2, 5, 12)
    assert_same(ours(x), theirs(x), [(x, x), (ours.norm_1.gamma, theirs.norm1.weight)])


def torch_decoder_block(ours):
    """torch's TransformerDecoderLayer with our weights."""
    theirs = nn.TransformerDecoderLayer(
        12, 3, 17, dropout=0.0, activation="gelu", batch_first=True, norm_first=ours.pre_norm
    )
    theirs.self_attn.load_state_dict(torch_attention(ours.self_attention).state_dict())
    theirs.multihead_attn.load_state_dict(torch_attention(ours.cross_attention).state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.shrink.state_dict())
    for a, b in ((ours.norm_1, theirs.norm1), (ours.norm_2, theirs.norm2), (ours.norm_3, theirs.norm3)):
        b.load_state_dict({"weight": a.gamma, "bias": a.beta})
    return theirs


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_decoder_block_equals_torchs(pre_norm):
    ours = shake(ref.DecoderBlock(12, 3, 17, pre_norm=pre_norm))
    theirs = torch_decoder_block(ours)
    x, memory = leaf(2, 5, 12), leaf(2, 6, 12)
    mask, memory_mask = ref.causal_mask(5), ref.padding_mask(torch.tensor([6, 2]), 6)
    with ref.attention_maps(ours) as maps:
        out = ours(x, memory, mask, memory_mask)
    own, cross = maps["self_attention"][:, 0], maps["cross_attention"][:, 0]
    expected = theirs(x, memory, tgt_mask=~mask, memory_key_padding_mask=~memory_mask[:, 0, 0])
    leaves = [
        (x, x),
        (memory, memory),
        (ours.norm_1.gamma, theirs.norm1.weight),
        (ours.norm_2.beta, theirs.norm2.bias),
        (ours.norm_3.gamma, theirs.norm3.weight),
        (ours.self_attention.w_o.weight, theirs.self_attn.out_proj.weight),
        (ours.cross_attention.w_o.weight, theirs.multihead_attn.out_proj.weight),
        (ours.feed_forward.expand.weight, theirs.linear1.weight),
    ]
    assert_same(out, expected, leaves)
    assert own.shape == (2, 3, 5, 5) and cross.shape == (2, 3, 5, 6)
    assert (own.masked_select(~mask) == 0).all() and (cross.masked_select(~memory_mask) == 0).all()


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_decoder_equals_torchs(pre_norm):
    ours = shake(ref.Decoder(2, 12, 3, 17, pre_norm=pre_norm))
    theirs = nn.TransformerDecoder(torch_decoder_block(ours.blocks[0]), 2, nn.LayerNorm(12) if pre_norm else None)
    theirs.layers[1] = torch_decoder_block(ours.blocks[1])
    if pre_norm:
        theirs.norm.load_state_dict({"weight": ours.norm.gamma, "bias": ours.norm.beta})
    x, memory = leaf(2, 5, 12), leaf(2, 6, 12)
    with ref.attention_maps(ours) as maps:
        out = ours(x, memory, ref.causal_mask(5))
    assert_same(out, theirs(x, memory, tgt_mask=~ref.causal_mask(5)), [(x, x), (memory, memory)])
    assert maps["blocks.self_attention"].shape == (2, 2, 3, 5, 5)
    assert maps["blocks.cross_attention"].shape == (2, 2, 3, 5, 6)


@pytest.mark.parametrize("kind", [ref.LayerNorm, ref.RMSNorm, ref.BatchNorm])
@pytest.mark.parametrize("stack", [ref.Encoder, ref.Decoder])
def test_the_norm_is_the_callers_choice_everywhere(stack, kind):
    model = stack(2, 12, 3, 17, norm=kind)
    norms = [m for m in model.modules() if isinstance(m, ref.LayerNorm | ref.RMSNorm | ref.BatchNorm)]
    assert {type(m) for m in norms} == {kind}
    assert len(norms) == (5 if stack is ref.Encoder else 7)
    assert not any(isinstance(m, kind) for m in stack(2, 12, 3, 17, norm=kind, pre_norm=False).norm.modules())


# The whole model


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_all_weights_come_on_request_with_masked_ones_zero(options):
    model, (source, target, mask) = transformer(**options), pairs()
    with ref.attention_maps(model) as maps:
        logits = model(source, target, mask)
    assert torch.equal(model(source, target, mask), logits)
    encoder, decoder, cross = (
        "encoder.blocks.attention",
        "decoder.blocks.self_attention",
        "decoder.blocks.cross_attention",
    )
    shapes = {encoder: (3, 2, 3, 6, 6), decoder: (3, 2, 3, 5, 5), cross: (3, 2, 3, 5, 6)}
    assert {name: tuple(weights.shape) for name, weights in maps.items()} == shapes
    masks = {encoder: mask, decoder: ref.causal_mask(5), cross: mask}
    for name, weights in maps.items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(shapes[name][:-1]))
        hidden = ~(masks[name].unsqueeze(1) if name != decoder else masks[name]).expand_as(weights)
        assert (weights[hidden] == 0).all()


@quick
@given(seed=seeds, variant=st.sampled_from(list(VARIANTS)), now=st.integers(1, 4))
def test_a_target_token_never_changes_what_comes_before_it(seed, variant, now):
    torch.manual_seed(seed)
    model, (source, target, mask) = transformer(**VARIANTS[variant]), pairs()
    other = target.clone()
    other[:, now:] = (other[:, now:] + 1) % 7
    before, after = model(source, target, mask), model(source, other, mask)
    torch.testing.assert_close(before[:, :now], after[:, :now])
    assert not torch.allclose(before[:, now:], after[:, now:])


@quick
@given(seed=seeds, variant=st.sampled_from(list(VARIANTS)), padding=st.integers(1, 4))
def test_padding_the_source_changes_nothing(seed, variant, padding):
    torch.manual_seed(seed)
    model, (source, target, _) = transformer(**VARIANTS[variant]), pairs()
    padded = torch.cat([source, torch.randint(0, 9, (3, padding))], dim=1)
    mask = ref.padding_mask(torch.full((3,), 6), 6 + padding)
    torch.testing.assert_close(model(padded, target, mask), model(source, target))


@quick
@given(seed=seeds, variant=st.sampled_from(list(VARIANTS)), steps=st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_decoding_with_a_cache_equals_recomputing(seed, variant, steps):
    torch.manual_seed(seed)
    model, (source, target, mask) = transformer(**VARIANTS[variant]), pairs(tokens=sum(steps))
    with ref.attention_maps(model.decoder) as whole:
        expected = model(source, target, mask)
    memory = model.encode(source, mask)
    cache = ref.DecoderCache(2)
    for new in target.split(steps, dim=1):
        start = len(cache)
        with ref.attention_maps(model.decoder) as maps:
            logits = model.decode(new, memory, mask, cache)
        now = slice(start, len(cache))
        torch.testing.assert_close(logits, expected[:, now], rtol=0, atol=1e-10)
        own, cross = (whole[name][..., now, :] for name in ("blocks.self_attention", "blocks.cross_attention"))
        torch.testing.assert_close(maps["blocks.self_attention"], own[..., : len(cache)], rtol=0, atol=1e-10)
        torch.testing.assert_close(maps["blocks.cross_attention"], cross, rtol=0, atol=1e-10)
    assert len(cache) == sum(steps)
    assert len(cache.layers[0][1]) == source.size(1), "the memory's keys and values are there once"


def test_the_whole_model_equals_one_built_from_torchs_layers():
    ours = transformer()
    source, target, mask = pairs()
    theirs = nn.Transformer(12, 2, 1, 1, 17, 0.0, batch_first=True)  # its layers are replaced
    for stack, own_stack, block in (
        (theirs.encoder, ours.encoder, torch_block),
        (theirs.decoder, ours.decoder, torch_decoder_block),
    ):
        stack.layers = nn.ModuleList(block(own) for own in own_stack.blocks)
        stack.norm.load_state_dict({"weight": own_stack.norm.gamma, "bias": own_stack.norm.beta})

    def embed(ids, embedding):
        return F.embedding(ids, embedding.weight) * math.sqrt(12) + ref.sinusoidal_encoding(ids.size(1), 12)

    hidden = ~mask[:, 0, 0]
    out = theirs(
        embed(source, ours.embed_source),
        embed(target, ours.embed_target),
        tgt_mask=~ref.causal_mask(5),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
    )
    weights = [ours.embed_source.weight, ours.embed_target.weight, ours.head.weight]
    assert_same(ours(source, target, mask), F.linear(out, ours.head.weight), zip(weights, weights, strict=True))


def test_shared_matrices_are_one_and_learn_from_every_use():
    alone = ref.Transformer(7, 7, d_model=12)
    shared = ref.Transformer(7, 7, d_model=12, share_source_target=True, share_target_output=True)
    assert shared.embed_source.weight is shared.embed_target.weight is shared.head.weight
    assert len({id(m.weight) for m in (alone.embed_source, alone.embed_target, alone.head)}) == 3
    count = {model: sum(p.numel() for p in model.parameters()) for model in (alone, shared)}
    assert count[alone] - count[shared] == 2 * 7 * 12
    source, target = torch.tensor([[0, 1]]), torch.tensor([[2, 3]])
    shared(source, target)[..., 4].sum().backward()
    assert shared.head.weight.grad.ne(0).any(dim=1).tolist() == [True] * 5 + [False] * 2
    with pytest.raises(ValueError, match="n_source=9 and n_target=7 must be equal to share one embedding"):
        ref.Transformer(9, 7, share_source_target=True)


def test_what_the_scale_multiplies():
    source, target, mask = pairs()
    plain, embedded, projected = (transformer(scale=scale) for scale in ("none", "emb", "prj"))
    for model in (embedded, projected):
        model.load_state_dict(plain.state_dict())
    torch.testing.assert_close(projected(source, target, mask), plain(source, target, mask) / math.sqrt(12))
    with torch.no_grad():
        for table in (plain.embed_source.weight, plain.embed_target.weight):
            table.mul_(math.sqrt(12))
    torch.testing.assert_close(embedded(source, target, mask), plain(source, target, mask))
    with pytest.raises(ValueError, match='scale=\'both\' must be "emb", "prj" or "none"'):
        ref.Transformer(9, 7, scale="both")


@pytest.mark.parametrize("scale, shared", [("emb", False), ("emb", True), ("prj", False), ("prj", True)])
def test_embedded_tokens_start_with_variance_1(scale, shared):
    model = ref.Transformer(400, 400, d_model=64, scale=scale, share_target_output=shared)
    for table in (model.embed_source, model.embed_target):
        assert (table.weight * model.embedding_scale).var().item() == pytest.approx(1, rel=0.05)


def test_a_sequence_longer_than_the_table_is_refused_in_whole_and_in_steps():
    model = transformer()
    with pytest.raises(ValueError, match="x has 21 tokens, the table only max_tokens=20 positions"):
        model(torch.zeros(1, 21, dtype=torch.long), torch.zeros(1, 3, dtype=torch.long))
    memory = model.encode(torch.zeros(1, 4, dtype=torch.long))
    cache = ref.DecoderCache(2)
    model.decode(torch.zeros(1, 20, dtype=torch.long), memory, cache=cache)
    with pytest.raises(ValueError, match="x has 1 tokens from position 20 on, the table only max_tokens=20"):
        model.decode(torch.zeros(1, 1, dtype=torch.long), memory, cache=cache)


def test_a_token_outside_of_its_vocabulary_is_refused():
    model, (source, target, _) = transformer(), pairs()
    source[0, 0], target[0, 0] = 8, 7
    with pytest.raises(ValueError, match=r"token ids \d … 7: the vocabulary of 7 has 0 … 6"):
        model(source, target)


def test_lengths_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"lengths has shape \(1, 2\); it must be \(batch,\)"):
        ref.padding_mask(torch.tensor([[1, 2]]), 3)
    with pytest.raises(ValueError, match="lengths holds 1 … 4; with n_tokens=3, each must be 0 … 3"):
        ref.padding_mask(torch.tensor([1, 4]), 3)


@pytest.mark.parametrize("decode", [ref.greedy_decode, ref.sample_decode, ref.beam_decode])
def test_decoding_needs_room_for_a_token(decode):
    model, (source, _, mask) = transformer(), pairs()
    with pytest.raises(ValueError, match="max_tokens=0 must be at least 1"):
        decode(model, source, START, END, 0, mask)


def test_dropout_acts_only_while_training():
    model, (source, target, mask) = transformer(dropout=0.3), pairs()
    assert torch.equal(model(source, target, mask), model(source, target, mask))
    model.train()
    assert not torch.equal(model(source, target, mask), model(source, target, mask))
