"""Language models: against GPT-2 and Llama of `transformers` in float64, cached and not; sampling; n-grams."""

import math
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from headroom import reference as ref
from headroom.reference.cache import KeyValueCache
from tests.peers import float64, quick, seeds, shake  # noqa: F401

SIZE = {"d_model": 24, "n_layers": 3, "n_heads": 6}  # heads of width 4
N_VOCABULARY, D_FF, MAX_TOKENS, N_GROUPS = 11, 17, 9, 2


def gpt2():
    """Ours, in eval mode and with every parameter away from its start."""
    return shake(ref.LanguageModel(N_VOCABULARY, **SIZE, d_ff=D_FF, max_tokens=MAX_TOKENS)).eval()


def llama():
    return shake(ref.llama(N_VOCABULARY, **SIZE, n_groups=N_GROUPS, d_ff=D_FF, max_tokens=MAX_TOKENS)).eval()


MODELS = {"GPT-2": gpt2, "Llama": llama}


def some_ids(batch=2, tokens=MAX_TOKENS):
    return torch.randint(0, N_VOCABULARY, (batch, tokens))


def as_gpt2(ours):
    """Tensors by our names → by GPT-2's, whose linear maps are stored the other way round; of weights, or gradients."""
    theirs = {
        "transformer.wte.weight": ours["embed.weight"],
        "transformer.wpe.weight": ours["positions.table"],
        "transformer.ln_f.weight": ours["norm.gamma"],
        "transformer.ln_f.bias": ours["norm.beta"],
    }
    for layer in range(SIZE["n_layers"]):
        here, there = f"blocks.{layer}", f"transformer.h.{layer}"
        maps = [f"{here}.attention.w_{name}" for name in "qkv"]
        theirs[f"{there}.attn.c_attn.weight"] = torch.cat([ours[f"{name}.weight"].T for name in maps], dim=1)
        theirs[f"{there}.attn.c_attn.bias"] = torch.cat([ours[f"{name}.bias"] for name in maps])
        for name, other in (
            ("attention.w_o", "attn.c_proj"),
            ("feed_forward.expand", "mlp.c_fc"),
            ("feed_forward.shrink", "mlp.c_proj"),
        ):
            theirs[f"{there}.{other}.weight"] = ours[f"{here}.{name}.weight"].T
            theirs[f"{there}.{other}.bias"] = ours[f"{here}.{name}.bias"]
        for number in (1, 2):
            theirs[f"{there}.ln_{number}.weight"] = ours[f"{here}.norm_{number}.gamma"]
            theirs[f"{there}.ln_{number}.bias"] = ours[f"{here}.norm_{number}.beta"]
    return theirs


def as_llama(ours):
    """The same for Llama, which turns feature i with feature i + d_head / 2 where we turn neighbours."""
    d_head = SIZE["d_model"] // SIZE["n_heads"]
    theirs = {"model.embed_tokens.weight": ours["embed.weight"], "model.norm.weight": ours["norm.gamma"]}
    for layer in range(SIZE["n_layers"]):
        here, there = f"blocks.{layer}", f"model.layers.{layer}"
        for name in "qkvo":
            weight = ours[f"{here}.attention.w_{name}.weight"]
            if name in "qk":  # (heads, pair, which of the pair) → (heads, which of the pair, pair)
                weight = weight.unflatten(0, (-1, d_head // 2, 2)).transpose(1, 2).flatten(0, 2)
            theirs[f"{there}.self_attn.{name}_proj.weight"] = weight
        for name in ("gate", "up", "down"):
            theirs[f"{there}.mlp.{name}_proj.weight"] = ours[f"{here}.feed_forward.{name}.weight"]
        theirs[f"{there}.input_layernorm.weight"] = ours[f"{here}.norm_1.gamma"]
        theirs[f"{there}.post_attention_layernorm.weight"] = ours[f"{here}.norm_2.gamma"]
    return theirs


@pytest.fixture
def peer(request, monkeypatch):
    """A model of ours, the same of `transformers` with its weights, and how names correspond. Nothing is fetched."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama import modeling_llama

    sizes = {"vocab_size": N_VOCABULARY, "attn_implementation": "eager"}
    if request.param == "GPT-2":
        ours, names = gpt2(), as_gpt2
        config = transformers.GPT2Config(
            n_embd=SIZE["d_model"],
            n_layer=SIZE["n_layers"],
            n_head=SIZE["n_heads"],
            n_inner=D_FF,
            n_positions=MAX_TOKENS,
            activation_function="gelu",  # GPT-2's own is an approximation of it
            **sizes,
        )
        theirs = transformers.GPT2LMHeadModel(config)
    else:
        # It rounds to float32 inside of the norms, the softmax and the positions; here it must not.
        doubles = {"float": torch.float64, "float32": torch.float64}
        monkeypatch.setattr(modeling_llama, "torch", SimpleNamespace(**(vars(torch) | doubles)))
        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
        ours, names = llama(), as_llama
        config = transformers.LlamaConfig(
            hidden_size=SIZE["d_model"],
            num_hidden_layers=SIZE["n_layers"],
            num_attention_heads=SIZE["n_heads"],
            num_key_value_heads=N_GROUPS,
            intermediate_size=D_FF,
            max_position_embeddings=MAX_TOKENS,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            **sizes,
        )
        theirs = transformers.LlamaForCausalLM(config)
    theirs.double().eval()
    result = theirs.load_state_dict(names(ours.state_dict()), strict=False)
    assert not result.unexpected_keys and set(result.missing_keys) <= {"lm_head.weight"}, (
        "the embedding's, which is tied"
    )
    return ours, theirs, names


@pytest.mark.parametrize("peer", MODELS, indirect=True)
def test_a_model_is_that_of_transformers_in_values_and_in_every_gradient(peer):
    ours, theirs, names = peer
    ids = some_ids()
    got, expected = ours(ids), theirs(ids, use_cache=False).logits
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    direction = torch.randn_like(got)
    (got * direction).sum().backward()
    (expected * direction).sum().backward()
    gradients = names({name: parameter.grad for name, parameter in ours.named_parameters()})
    parameters = dict(theirs.named_parameters())
    assert gradients.keys() == parameters.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, parameters[name].grad, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.parametrize("peer", MODELS, indirect=True)
@torch.no_grad()
def test_with_a_cache_too_step_by_step(peer):
    ours, theirs, _ = peer
    ids, cache, kept = some_ids(), [KeyValueCache() for _ in range(SIZE["n_layers"])], None
    for part in ids.split([4, 1, 3, 1], dim=1):
        result = theirs(part, past_key_values=kept, use_cache=True)
        kept = result.past_key_values
        torch.testing.assert_close(ours(part, cache), result.logits, rtol=0, atol=1e-10)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_a_cache_changes_nothing_and_no_token_sees_a_later_one(make):
    model, ids = make(), some_ids()
    cache = [KeyValueCache() for _ in model.blocks]
    logits = model(ids)
    torch.testing.assert_close(torch.cat([model(part, cache) for part in ids.split(2, dim=1)], dim=1), logits)
    changed = ids.clone()
    changed[:, 5] = (ids[:, 5] + 1) % N_VOCABULARY
    moved = (model(changed) - logits).abs().amax(dim=(0, 2)) > 1e-9
    assert moved.tolist() == [False] * 5 + [True] * (MAX_TOKENS - 5)


VARIANTS = {
    "post-norm": {"pre_norm": False},
    "sin-cos": {"positions": ref.PositionalEncoding},
    "rotary": {"positions": None, "attention": ref.RotarySelfAttention},
    "RMSNorm": {"norm": ref.RMSNorm},
    "SwiGLU": {"feed_forward": ref.SwiGLU},
    "untied": {"tied": False},
}


@pytest.mark.parametrize("name", VARIANTS)
@torch.no_grad()
def test_one_part_can_be_exchanged_and_a_cache_still_changes_nothing(name):
    model = shake(ref.LanguageModel(N_VOCABULARY, **SIZE, max_tokens=MAX_TOKENS, **VARIANTS[name])).eval()
    ids, cache = some_ids(), [KeyValueCache() for _ in range(SIZE["n_layers"])]
    torch.testing.assert_close(torch.cat([model(part, cache) for part in ids.split(4, dim=1)], dim=1), model(ids))


def test_post_norm_is_the_decoders_block_without_its_memory():
    """As a check of the order of norm and sum: the encoder's block, under a causal mask."""
    block, encoder = (make(24, 6, 17, pre_norm=False) for make in (ref.CausalBlock, ref.EncoderBlock))
    encoder.load_state_dict(shake(block).state_dict())
    x, mask = torch.randn(2, 7, 24), ref.causal_mask(7)
    torch.testing.assert_close(block(x, mask), encoder(x, mask))


# The modern parts


def test_as_many_groups_as_heads_is_rotary_self_attention():
    ours, plain = ref.GroupedQueryAttention(24, 6, 6), ref.RotarySelfAttention(24, 6)
    for name in ("w_q", "w_k", "w_v", "w_o"):
        getattr(plain, name).weight.data = getattr(ours, name).weight.data
        getattr(plain, name).bias.data.zero_()
    x, mask = torch.randn(2, 7, 24), ref.causal_mask(7)
    torch.testing.assert_close(ours(x, mask), plain(x, mask))


@torch.no_grad()
def test_grouped_queries_keep_fewer_keys_and_values():
    cache, x = KeyValueCache(), torch.randn(3, 7, 24)
    ref.GroupedQueryAttention(24, 6, 2)(x, ref.causal_mask(7), cache)
    keys, values = cache.kept()
    assert keys.shape == values.shape == (3, 2, 7, 4)


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: ref.GroupedQueryAttention(10, 4, 2), "d_model=10 does not divide into n_heads=4 equal heads"),
        (lambda: ref.GroupedQueryAttention(24, 6, 4), "n_heads=6 does not divide into n_groups=4 equal groups"),
        (lambda: ref.GroupedQueryAttention(9, 3, 3), "d_head=3 must be even"),
        (lambda: gpt2()(some_ids(tokens=10)), "10 tokens is longer than max_tokens=9"),
        (lambda: gpt2().generate(some_ids(tokens=5), 6), "10 tokens is longer than max_tokens=9"),
        (lambda: gpt2().generate(some_ids(tokens=5), 0), "n_tokens=0 must be at least 1"),
        (lambda: ref.sample_next(torch.zeros(1, 3), temperature=0), "temperature=0 must be greater than 0"),
        (lambda: ref.sample_next(torch.zeros(1, 3), top_k=0), "top_k=0 must be at least 1"),
        (lambda: ref.sample_next(torch.zeros(1, 3), top_p=0.0), "top_p=0.0 must be greater than 0"),
        (lambda: ref.sample_next(torch.zeros(1, 3), top_p=1.1), "top_p=1.1 must be greater than 0 and at most 1"),
        (lambda: ref.NGram(some_ids()[0], N_VOCABULARY, 0), "order=0 must be at least 1"),
        (lambda: ref.NGram(some_ids()[0], N_VOCABULARY, 19), "11\\^order less than 2\\^63"),
        (lambda: ref.NGram(some_ids()[0][:3], N_VOCABULARY, 4), "ids has 3 tokens; order=4 needs"),
        (lambda: ref.surprise(gpt2(), some_ids()[0], 9), "context=9 must be even"),
        (lambda: ref.surprise(gpt2(), some_ids()[0][:6], 6), "ids has 6 tokens; context=6 needs more"),
    ],
)
def test_what_does_not_go_is_said(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


# Sampling


@pytest.mark.parametrize("top_k, top_p", [(None, 1.0), (3, 1.0), (None, 0.6), (4, 0.7), (1, 1.0), (None, 1e-9)])
def test_samples_have_the_probabilities_of_the_tokens_that_are_kept(top_k, top_p):
    logits, temperature = 2 * torch.randn(8), 1.3
    p = (logits / temperature).softmax(dim=-1).tolist()
    kept = sorted(range(8), key=p.__getitem__, reverse=True)[:top_k]
    mass = sum(p[token] for token in kept)
    for n in range(1, len(kept) + 1):  # the smallest set that has at least this share of the mass
        if sum(p[token] for token in kept[:n]) / mass >= top_p:
            kept = kept[:n]
            break
    mass, n = sum(p[token] for token in kept), 20_000
    generator = torch.Generator().manual_seed(3)
    drawn = ref.sample_next(logits.expand(n, -1), temperature, top_k, top_p, generator)
    counted = Counter(drawn.tolist())
    assert set(counted) <= set(kept)
    for token in kept:
        expected = p[token] / mass
        assert counted[token] / n == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / n) + 1e-9)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_generating_is_sampling_from_the_whole_sequence_again_and_again(make):
    model, ids, options = make(), some_ids(tokens=3), {"temperature": 0.8, "top_k": 7, "top_p": 0.9}
    written = model.generate(ids, 6, **options, generator=torch.Generator().manual_seed(5))
    generator, sequence = torch.Generator().manual_seed(5), ids
    for _ in range(6):
        with torch.no_grad():
            new = ref.sample_next(model(sequence)[:, -1], **options, generator=generator)
        sequence = torch.cat([sequence, new[:, None]], dim=1)
    assert torch.equal(written, sequence[:, 3:])


def test_top_1_is_greedy_and_a_tie_at_the_last_place_is_kept():
    model, ids = gpt2(), some_ids(tokens=3)
    written = model.generate(ids, 6, top_k=1)
    with torch.no_grad():
        logits = model(torch.cat([ids, written], dim=1))
    assert torch.equal(logits[:, 2:-1].argmax(dim=-1), written)
    drawn = ref.sample_next(torch.tensor([1.0, 0.0, 0.0, -1.0]).expand(500, -1), top_k=2)
    assert set(drawn.tolist()) == {0, 1, 2}


# Loss


def test_the_loss_asks_for_each_next_token():
    model, ids = gpt2(), some_ids()
    logits = model(ids[:, :-1])
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    torch.testing.assert_close(ref.next_token_loss(model, ids), expected)


@given(seed=seeds, n=st.integers(7, 40), half=st.integers(1, 3))
@quick
def test_the_surprise_of_a_text_is_that_of_its_windows(seed, n, half):
    torch.manual_seed(seed)
    model, ids, context = gpt2(), some_ids(1, n)[0], 2 * half
    got = ref.surprise(model, ids, context, batch_size=3)
    assert got.shape == (n - 1,)
    with torch.no_grad():
        for place in range(1, n):
            seen = [
                -model(ids[None, start:place])[0, -1].log_softmax(dim=-1)[ids[place]] / math.log(2)
                for start in range(max(0, place - context), max(1, place - half + 1))
            ]
            assert any(torch.isclose(got[place - 1], bits) for bits in seen), "by a context of half a window or more"


# N-grams


def slow_probability(text, n_vocabulary, order, discounts, context, token):
    """Of the token after the context, read off the definition."""
    if order == 0:
        return 1 / n_vocabulary
    grams = [tuple(text[i : i + order]) for i in range(len(text) - order + 1)]
    if order < slow_probability.longest:  # different tokens in front
        longer = {tuple(text[i : i + order + 1]) for i in range(len(text) - order)}
        # … of what is itself counted by what stands in front of it, up to the longest
        for n in range(order + 2, slow_probability.longest + 1):
            longer = {gram[-order - 1 :] for gram in {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}}
        counts = Counter(gram[1:] for gram in longer)
    else:
        counts = Counter(grams)
    context = tuple(context[len(context) - order + 1 :])
    shorter = slow_probability(text, n_vocabulary, order - 1, discounts, context[1:], token)
    followed = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == context}
    if not followed:
        return shorter
    lowered = [discounts[min(count, 3) - 1] for count in followed.values()]
    count = followed.get(token, 0)
    own = count - discounts[min(count, 3) - 1] if count else 0
    return (own + sum(lowered) * shorter) / sum(followed.values())


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_an_n_gram_is_its_definition_and_its_probabilities_add_up_to_1(order):
    n_vocabulary, discounts = 4, (0.8, 1.2, 1.6)
    text = torch.randint(0, n_vocabulary, (60,)).square() % n_vocabulary  # some more frequent than others
    model = ref.NGram(text, n_vocabulary, order)
    model.discounts = discounts
    slow_probability.longest = order
    for context in ([1, 0, 1], [3, 3, 3], [2, 1, 0]):
        after = [model.probabilities(torch.tensor([*context, token]))[-1].item() for token in range(n_vocabulary)]
        assert sum(after) == pytest.approx(1)
        slow = [
            slow_probability(text.tolist(), n_vocabulary, order, discounts, context, token)
            for token in range(n_vocabulary)
        ]
        assert after == pytest.approx(slow)


def test_n_grams_count_in_bits():
    """A text without any order costs what its vocabulary says; one that repeats costs next to nothing."""
    random, repeated = torch.randint(0, 8, (20_000,)), torch.arange(8).repeat(500)
    assert ref.NGram(random, 8, 1).bits(torch.randint(0, 8, (5000,))) == pytest.approx(3, abs=0.01)
    assert ref.NGram(repeated, 8, 3).bits(repeated[:800]) < 0.05
