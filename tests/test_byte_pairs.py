"""Byte-pair encoding learns what the `tokenizers` library learns, and loses nothing of a text."""

import json

import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from headroom.data import CHARACTERS, BytePairEncoding, code_tokens, embedded_code
from headroom.data.byte_pairs import LEARNED, PIECES
from headroom.data.make_embedded_code import N_TOKENS, learn_tokens
from headroom.scale import VARIABLE

CODE = embedded_code()
TEXTS = [text[:4000] for text in CODE.train.values()]


def library(texts, n_vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES.pattern), "isolated")
    trainer = trainers.BpeTrainer(
        vocab_size=n_vocabulary, show_progress=False, initial_alphabet=list(CHARACTERS.characters)
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def test_tokens_and_encoded_texts_are_those_of_the_library():
    ours, theirs = BytePairEncoding.learn(TEXTS, 300), library(TEXTS, 300)
    assert [theirs.id_to_token(number) for number in range(300)] == ours.tokens
    for text in [*CODE.val.values(), *CODE.test.values()]:
        assert theirs.encode(text).ids == ours.encode(text).tolist()


@pytest.mark.full
def test_the_courses_tokens_are_those_learned_from_its_training_files(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert learn_tokens().merges == code_tokens().merges
    assert len(code_tokens()) == N_TOKENS == 1024
    assert len(json.loads(LEARNED.read_text())) == 1024 - len(CHARACTERS.characters)


@pytest.mark.parametrize("text", ["", "x", "def f(self):\n    return 1\n", "    \n\n  a__b", " ".join("{}~^|\\")])
def test_what_is_encoded_is_decoded(text):
    tokens = code_tokens()
    ids = tokens.encode(text)
    assert ids.dtype == torch.int64 and tokens.decode(ids) == text
    assert "".join(tokens.tokens[number] for number in ids) == text


def test_a_token_ends_where_a_piece_ends():
    tokens = code_tokens()
    text = CODE.val[next(iter(CODE.val))]
    ends = {piece.end() for piece in PIECES.finditer(text)}
    reached = torch.tensor([len(tokens.tokens[number]) for number in tokens.encode(text)]).cumsum(0)
    assert ends <= set(reached.tolist())


def test_equally_frequent_pairs_are_merged_in_the_order_of_their_numbers():
    tokens = BytePairEncoding.learn(["ab cd"], 98)
    assert tokens.tokens[96:] == [" c", "ab"]


@pytest.mark.parametrize("n", (0, 95))
def test_fewer_tokens_than_characters_are_refused(n):
    with pytest.raises(ValueError, match=f"n_vocabulary={n} must be at least 96"):
        BytePairEncoding.learn(["some text"], n)


def test_more_tokens_than_there_are_pairs_are_refused():
    with pytest.raises(ValueError, match="no pairs left after 97 tokens"):
        BytePairEncoding.learn(["ab"], 100)


def test_an_unknown_character_is_named():
    with pytest.raises(ValueError, match="'é'"):
        code_tokens().encode("café")
