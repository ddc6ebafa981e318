"""Attention of the text models of Hugging Face's `transformers`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from headroom.widgets.attention_explorer.inputs import MAX_TOKENS


@contextmanager
def eager_attention(model: Any) -> Generator[None]:
    """Within the block a model of `transformers` computes attention such that it can give the weights."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def run_huggingface(
    model: Any, tokenizer: Any, text: str, part: str | None, target: str | None, device: torch.device
) -> tuple[np.ndarray, list[str], list[str]]:
    """The weights `(n_layers, n_heads, n_queries, n_keys)` for one text, and the words of queries and keys."""
    ids = tokenizer(text, return_tensors="pt")["input_ids"].to(device)
    asking = asked = ids
    if part is None:
        answer = model(input_ids=ids, output_attentions=True)
        maps = answer.attentions
    else:
        if target is None:
            given = model.generate(input_ids=ids, do_sample=False, num_beams=1, max_new_tokens=MAX_TOKENS)
        else:
            written = tokenizer(text_target=target, return_tensors="pt")["input_ids"].to(device)
            first = torch.full_like(written[:, :1], model.config.decoder_start_token_id)
            given = torch.cat([first, written], dim=1)
        answer = model(input_ids=ids, decoder_input_ids=given, output_attentions=True)
        maps = getattr(answer, f"{part}_attentions")
        asking, asked = (given if part != "encoder" else ids), (given if part == "decoder" else ids)
    if not maps or any(layer is None for layer in maps):
        raise ValueError(f"{type(model).__name__} gave no attention weights for output_attentions=True")
    weights = torch.stack([layer[0].float() for layer in maps]).cpu().numpy()
    return weights, _words_of(tokenizer, asking), _words_of(tokenizer, asked)


def _words_of(tokenizer: Any, ids: torch.Tensor) -> list[str]:
    """The tokens of one sequence `(1, n)` as people read them, without a tokenizer's signs for spaces."""
    words = []
    for token in tokenizer.convert_ids_to_tokens(ids[0].tolist()):
        word = tokenizer.convert_tokens_to_string([token]).strip()
        words.append(token if not word or "\ufffd" in word else word)  # a part of a character has no word
    return words
