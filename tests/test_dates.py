"""Dates: what is written means one day, no day of the test is in training, and decoding undoes encoding."""

import random
import re
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from headroom.data import (
    BOS,
    EOS,
    LANGUAGES,
    PAD,
    SOURCE,
    TARGET,
    Vocabulary,
    days_of,
    split_of,
    styles,
    where_written,
    write_date,
    written_dates,
)
from headroom.data.dates import FIRST_YEAR, LAST_YEAR, ROMAN, SPLITS, _slips
from headroom.data.slips import WORD, Slips, one_slip

EVERY_STYLE = [(language, style) for language in LANGUAGES for style in styles(language)]
days = st.dates(date(FIRST_YEAR, 1, 1), date(LAST_YEAR, 12, 31))
quick = settings(max_examples=200, deadline=None)


def days_of_year(year):
    first = date(year, 1, 1)
    return [first + timedelta(days=i) for i in range((date(year + 1, 1, 1) - first).days)]


def calendars():
    """A year of the span for each of the 14 calendars: a weekday for the 1st of January, and a leap day or none."""
    found = {}
    for year in range(FIRST_YEAR, LAST_YEAR + 1):
        found.setdefault((date(year, 1, 1).weekday(), len(days_of_year(year))), year)
    assert len(found) == 14
    return list(found.values())


# What is written


@pytest.mark.parametrize(
    ("day", "language", "style", "expected"),
    [
        (date(2021, 3, 4), "de", "full_article", "Donnerstag, den 4. März 2021"),
        (date(2021, 3, 4), "de", "long_upper", "4. MÄRZ 2021"),
        (date(2021, 3, 4), "el", "article", "την 4η Μαρτίου 2021"),
        (date(1999, 5, 31), "el", "long_upper", "31 ΜΑΪΟΥ 1999"),
        (date(2021, 3, 4), "en", "american_ordinal", "March 4th, 2021"),
        (date(2021, 3, 22), "en", "article", "the 22nd of March 2021"),
        (date(2021, 3, 13), "en", "ordinal", "13th March 2021"),
        (date(2021, 3, 31), "en", "ordinal", "31st March 2021"),
        (date(2021, 3, 4), "es", "long", "4 de marzo de 2021"),
        (date(2021, 3, 4), "es", "full_capital", "Jueves, 4 de Marzo de 2021"),
        (date(2021, 1, 1), "fr", "ordinal", "1er janvier 2021"),
        (date(2021, 1, 2), "fr", "ordinal", "2 janvier 2021"),
        (date(2021, 1, 1), "it", "ordinal", "1º gennaio 2021"),
        (date(2021, 3, 4), "nl", "weekday", "do 4 mrt 2021"),
        (date(2021, 8, 4), "pl", "roman", "4 VIII 2021"),
        (date(2021, 3, 4), "pt", "full", "quinta-feira, 4 de mar. de 2021"),
        (date(2021, 3, 4), "ru", "long", "4 марта 2021 г."),
        (date(2021, 3, 4), "ru", "year_word", "4 марта 2021 года"),
    ],
)
def test_dates_are_written_as_people_write_them(day, language, style, expected):
    assert write_date(day, language, style) == expected


@pytest.mark.full
def test_no_written_date_stands_for_two_days():
    """Of all written dates: years of the same calendar differ in the four digits of the year alone."""
    year_digits = re.compile(r"(?<!\d)\d{4}(?!\d)")
    for year in calendars():
        meant = {}
        for day in days_of_year(year):
            for language, style in EVERY_STYLE:
                written = write_date(day, language, style)
                assert meant.setdefault(written, day) == day, (language, style, written)
        for written in meant:
            assert year_digits.findall(written) == [str(year)], written


@quick
@given(day=days, form=st.sampled_from(EVERY_STYLE))
def test_years_of_the_same_calendar_differ_in_the_year_alone(day, form):
    later = next(
        (date(year, day.month, day.day) for year in range(day.year + 1, LAST_YEAR + 1)
         if days_of_year(year)[0].weekday() == date(day.year, 1, 1).weekday()
         and len(days_of_year(year)) == len(days_of_year(day.year))),
        day,
    )  # fmt: skip
    assert write_date(later, *form) == write_date(day, *form).replace(str(day.year), str(later.year))


def read(written):
    """A reader apart, who follows the module's rules: the month's name if there is one, or else the order of digits."""
    digits = [int(number) for number in re.findall(r"\d+", written)]
    if len(digits) == 3:
        year, month, day = digits if digits[0] > 31 else digits[::-1]
        return date(year, month, day)
    day, year = digits
    months = {ROMAN.index(word) + 1 for word in re.findall(r"\b[IVX]+\b", written)}
    if not months:  # the last word that is a month's: a weekday, abbreviated, may look like one, and comes before it
        words = [word.casefold() for word in re.findall(r"[^\W\d_]+", written)]
        months = {[_slips().months[word] for word in words if word in _slips().months][-1]}
    return date(year, months.pop(), day)


@quick
@given(day=days, form=st.sampled_from(EVERY_STYLE))
def test_every_written_date_reads_as_its_day(day, form):
    written = write_date(day, *form)
    assert read(written) == day, written


@pytest.mark.parametrize("separator", "/.-")
def test_digits_alone_are_read_from_day_to_year_unless_the_year_comes_first(separator):
    seen = 0
    for language, style in EVERY_STYLE:
        written = write_date(date(2021, 3, 4), language, style)
        if re.fullmatch(rf"\d+{re.escape(separator)}\d+{re.escape(separator)}\d+", written):
            seen += 1
            assert [int(n) for n in written.split(separator)] in ([4, 3, 2021], [2021, 3, 4]), written
    assert seen


def test_each_language_has_the_unicode_consortiums_styles_capitals_and_its_own():
    cldr, changed = {"full", "long", "medium", "weekday", "numeric"}, {"long_upper"}
    own = {"de": 4, "el": 3, "en": 9, "es": 3, "fr": 4, "it": 3, "nl": 3, "pl": 3, "pt": 3, "ru": 3}
    for language in LANGUAGES:
        names = set(styles(language))
        variants = {f"{style}_{variant}" for style in ("long", "full") for variant in ("capital", "small")} & names
        assert names >= cldr | changed and len(variants) == 2
        assert len(names - cldr - changed - variants) == own[language], language


def test_no_language_writes_two_styles_alike():
    for language in LANGUAGES:
        year = [{style: write_date(day, language, style) for style in styles(language)} for day in days_of_year(2021)]
        for i, one in enumerate(styles(language)):
            for other in styles(language)[i + 1 :]:
                assert any(written[one] != written[other] for written in year), (language, one, other)


def test_written_dates_are_short_and_of_known_characters_that_figures_can_show():
    font = FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap()
    assert all(ord(character) in font for character in SOURCE.characters)
    for day in days_of_year(2024):
        for language, style in EVERY_STYLE:
            written = write_date(day, language, style)
            assert len(written) <= 36, written
            assert set(written) <= set(SOURCE.characters), written
            assert written == " ".join(written.split()), written


# Splits


def test_no_day_is_in_two_splits_and_none_is_lost():
    train, val, test = (set(days_of(split)) for split in SPLITS)
    assert not train & val and not train & test and not val & test
    assert len(train | val | test) == (date(LAST_YEAR + 1, 1, 1) - date(FIRST_YEAR, 1, 1)).days
    assert len(test) == pytest.approx(len(train | val | test) / 10, abs=1)
    assert len(val) == pytest.approx(len(train | val | test) / 10, abs=1)


def test_the_splits_never_change():
    around = [date(2021, 3, 1) + timedelta(days=i) for i in range(10)]
    assert [split_of(day) for day in around] == ["test"] + ["train"] * 8 + ["val"]


def test_every_split_has_all_days_months_weekdays_and_years():
    for split in SPLITS:
        assert {day.day for day in days_of(split)} == set(range(1, 32))
        assert {day.month for day in days_of(split)} == set(range(1, 13))
        assert {day.year for day in days_of(split)} == set(range(FIRST_YEAR, LAST_YEAR + 1))
        weekdays = Counter(day.weekday() for day in days_of(split)).values()
        assert max(weekdays) / min(weekdays) < 1.01


@pytest.mark.parametrize("typos", [0.0, 1.0])
def test_nothing_of_validation_and_test_is_in_training(typos):
    train, *held_out = (written_dates(split, 5000, seed=3, typos=typos) for split in SPLITS)
    for other in held_out:
        assert not set(train.iso) & set(other.iso)
        assert not set(train.written) & set(other.written)
    for split, drawn in zip(SPLITS, (train, *held_out), strict=True):
        assert {split_of(date.fromisoformat(iso)) for iso in drawn.iso} == {split}


# Samples


@quick
@given(
    split=st.sampled_from(SPLITS),
    n=st.integers(1, 60),
    seed=st.integers(0, 2**40),
    languages=st.lists(st.sampled_from(LANGUAGES), min_size=1, unique=True),
)
def test_a_sample_is_balanced_and_means_what_it_says(split, n, seed, languages):
    dates = written_dates(split, n, seed, languages=languages)
    assert len(dates) == len(dates.written) == len(dates.iso) == len(dates.language) == n
    counts = Counter({language: 0 for language in languages}) + Counter(dates.language)
    assert set(counts) <= set(languages) and max(counts.values()) - min(counts[la] for la in languages) <= 1
    for written, iso, language in zip(dates.written, dates.iso, dates.language, strict=True):
        day = date.fromisoformat(iso)
        assert read(written) == day
        assert written in {write_date(day, language, style) for style in styles(language)}
    again = written_dates(split, n, seed, languages=languages)
    assert again == dates


def test_a_seed_means_the_same_days_on_every_machine():
    dates = written_dates("train", 4, seed=1, languages=("en", "ru"))
    assert dates.written == ["10 августа 1978 г.", "25 july 2005", "26 Jan 1965", "18 ДЕКАБРЯ 2002 Г."]
    assert dates.iso == ["1978-08-10", "2005-07-25", "1965-01-26", "2002-12-18"]
    assert dates.language == ["ru", "en", "en", "ru"]
    assert written_dates("train", 4, seed=2, languages=("en", "ru")).iso != dates.iso


def test_a_sample_draws_from_nobody_elses_random_numbers():
    random.seed(5)
    torch.manual_seed(5)
    before = random.getstate(), torch.get_rng_state()
    written_dates("train", 10, typos=1.0)
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])


def test_every_style_of_every_language_is_drawn():
    dates = written_dates("train", 20_000)
    missing = {form: None for form in EVERY_STYLE}
    for written, iso, language in zip(dates.written, dates.iso, dates.language, strict=True):
        for style in styles(language):
            if write_date(date.fromisoformat(iso), language, style) == written:
                missing.pop((language, style), None)
    assert not missing


def test_the_tensors_are_ready_to_train_on():
    dates = written_dates("val", 50, typos=1.0)
    assert dates.source.shape == (50, max(map(len, dates.written))) and dates.source.dtype == torch.int64
    assert dates.source_lengths.tolist() == [len(written) for written in dates.written]
    assert SOURCE.decode(dates.source) == dates.written
    assert dates.target.shape == (50, 12) and dates.target.dtype == torch.int64
    assert (dates.target[:, 0] == BOS).all() and (dates.target[:, -1] == EOS).all()
    assert TARGET.decode(dates.target) == dates.iso


def test_dates_wait_for_babel_only_when_they_are_asked_for():
    code = (
        "import sys\n"
        "import headroom.data\n"
        "assert 'babel' not in sys.modules and 'torchvision' not in sys.modules\n"
        "headroom.data.written_dates('train', 1)\n"
        "assert 'babel' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: written_dates("dev", 1), "split='dev': it must be one of train, val, test"),
        (lambda: days_of("dev"), "split='dev': it must be one of train, val, test"),
        (lambda: written_dates("train", 0), "n=0: it must be at least 1"),
        (lambda: written_dates("train", 1, typos=-0.5), r"typos=-0\.5: it must be at least 0"),
        (lambda: written_dates("train", 1, typos=float("nan")), "typos=nan: it must be at least 0"),
        (lambda: written_dates("train", 1, typos=float("inf")), "typos=inf: it must be .* finite"),
        (lambda: written_dates("train", 1, languages=("en", "xx")), "language='xx' is not one of de, el, en"),
        (lambda: written_dates("train", 1, languages=()), "languages is empty; it must hold some of de, el, en"),
        (lambda: write_date(date(2021, 3, 4), "xx"), "language='xx' is not one of de, el, en"),
        (lambda: write_date(date(2021, 3, 4), "pl", "article"), "style='article' is not one of language 'pl': full, "),
        (lambda: styles("xx"), "language='xx' is not one of de, el, en"),
    ],
)
def test_what_there_is_not_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_one_language_without_its_tuple_is_refused():
    with pytest.raises(TypeError, match=r"languages is the string 'en'; it must be a tuple, such as \('en',\)"):
        written_dates("train", 1, languages="en")


# Slips of the hand


def test_slips_are_the_four_kinds():
    assert one_slip("ab") == {"b", "a", "aab", "abb", "ba", "sb", "av", "an"}
    assert one_slip("May") >= {"ay", "Mayy", "aMy", "Nay", "Mat"} and "May" not in one_slip("May")
    assert one_slip("мая") >= {"мчя"[::2], "мпя", "амя"}


def slipped(written, month):
    """All that one slip may make of a written date."""
    for match in WORD.finditer(written):
        for slip in _slips().choices(match.group(), month):
            yield written[: match.start()] + slip + written[match.end() :]


def test_a_slip_makes_no_written_date_of_another_day():
    meant = {}
    year = [day for day in days_of_year(2021) if day.day in (1, 2, 30)]
    for language, style in EVERY_STYLE:
        for day in year:
            written = write_date(day, language, style)
            for each in (written, *slipped(written, day.month)):
                assert meant.setdefault(each, day) == day, (each, day, meant[each])


@pytest.mark.full
def test_a_slip_in_a_months_name_could_have_begun_with_no_other_month():
    names = _slips().months
    checked = 0
    for name, month in names.items():
        for slip in _slips().choices(name, month):
            checked += 1
            others = [other for other, its in names.items() if its != month]
            assert slip not in others
            assert not [other for other in others if abs(len(other) - len(slip)) <= 1 and slip in one_slip(other)]
    assert checked > 1000


def test_a_slip_that_another_months_name_may_lead_to_is_not_made():
    slips = Slips({"Jun": 6, "Juni": 6, "Jul": 7, "Juli": 7, "Mar": 3})
    assert not {"Ju", "ju"} & set(slips.choices("Jun", 6))
    assert "Jui" not in slips.choices("Juni", 6), "Juli without its l is Jui too"
    assert "Jnu" in slips.choices("Jun", 6)
    assert "mar" not in slips.choices("mare", 6)


def test_roman_months_never_slip():
    assert not any(_slips().choices(month, number) for number, month in enumerate(ROMAN, start=1))


@quick
@given(seed=st.integers(0, 2**32), typos=st.floats(0, 3))
def test_digits_never_slip(seed, typos):
    clean = written_dates("train", 30, seed)
    rng = random.Random(seed)
    for written, iso in zip(clean.written, clean.iso, strict=True):
        made = _slips().make(written, date.fromisoformat(iso).month, typos, rng)
        assert re.findall(r"\d+", made) == re.findall(r"\d+", written)
        assert abs(len(made) - len(written)) <= typos + 1
        if not re.search(r"[^\W\d_]{3}", written):
            assert made == written


@pytest.mark.parametrize("typos", [0.25, 1.0, 1.5])
def test_as_many_slips_are_made_as_were_asked_for(typos):
    rng = random.Random(0)
    made = [_slips().make("Donnerstag, den 4. Oktober 2021", 10, typos, rng) for _ in range(4000)]
    words = [re.findall(r"[^\W\d_]+", text) for text in made]
    slips = sum(
        word != right for three in words for word, right in zip(three, ("Donnerstag", "den", "Oktober"), strict=True)
    )
    assert slips / len(made) == pytest.approx(typos, abs=0.05)


def test_without_typos_nothing_slips():
    dates = written_dates("train", 2000, typos=0.0)
    for written, iso, language in zip(dates.written, dates.iso, dates.language, strict=True):
        assert written in {write_date(date.fromisoformat(iso), language, style) for style in styles(language)}


# Vocabularies


def test_vocabularies_are_fixed():
    assert (PAD, BOS, EOS) == (0, 1, 2)
    assert TARGET.tokens == ("<pad>", "<bos>", "<eos>", *"0123456789-") and len(TARGET) == 14
    assert len(SOURCE) == 280 and SOURCE.tokens[3:13] == tuple("0123456789")
    assert SOURCE.numbers["z"] == SOURCE.tokens.index("z")


@quick
@given(texts=st.lists(st.text(SOURCE.characters, max_size=20), min_size=1, max_size=5), ends=st.booleans())
def test_decoding_undoes_encoding(texts, ends):
    rows, lengths = SOURCE.encode(texts, ends)
    assert rows.dtype == lengths.dtype == torch.int64
    assert rows.shape == (len(texts), max(map(len, texts)) + 2 * ends)
    assert lengths.tolist() == [len(text) + 2 * ends for text in texts]
    assert SOURCE.decode(rows) == texts
    for row, length in zip(rows, lengths, strict=True):
        assert (row[length:] == PAD).all() and (row[:length] != PAD).all()
        if ends:
            assert row[0] == BOS and row[length - 1] == EOS


def test_decoding_stops_at_the_first_end():
    rows = torch.tensor([[BOS, 3, 4, EOS, 5, EOS, PAD]])
    assert TARGET.decode(rows) == ["01"]


def test_an_unknown_character_is_named_with_its_text():
    with pytest.raises(ValueError, match=r"the character 'ä' \(U\+00E4\) in '2021-0ä' is not one of"):
        TARGET.encode(["2021-03-04", "2021-0ä"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: TARGET.encode("2021"), TypeError, r"texts is the string '2021'.* list of strings"),
        (lambda: TARGET.encode([]), ValueError, "texts is empty"),
        (lambda: TARGET.decode(torch.tensor([3, 4])), ValueError, r"rows has shape \(2,\); it must be \(n, length\)"),
        (
            lambda: TARGET.decode(torch.tensor([[3, 14]])),
            ValueError,
            "rows holds 3 … 14; the vocabulary's numbers are 0 … 13",
        ),
        (lambda: TARGET.decode(torch.tensor([[-1, 3]])), ValueError, "rows holds -1 … 3"),
        (lambda: Vocabulary("aba"), ValueError, "characters holds 'a' twice"),
    ],
)
def test_vocabularies_refuse_what_they_cannot_do(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("language", LANGUAGES)
def test_where_a_date_says_what(language):
    """Year, month and day are found where they stand: the year's four digits, the day's number, and none overlaps."""
    for style in styles(language):
        for day in (date(2021, 3, 4), date(1999, 12, 31), date(2003, 8, 1)):
            text, places = write_date(day, language, style), where_written(day, language, style)
            assert places.keys() == {"year", "month", "day"}
            assert text[places["year"]] == str(day.year)
            assert re.match(r"\d+", text[places["day"]])[0].lstrip("0") == str(day.day)
            assert text[places["month"]].lstrip("0") == str(day.month) or text[places["month"]][0].isalpha()
            taken = [i for place in places.values() for i in range(place.start, place.stop)]
            assert len(taken) == len(set(taken)) and all(not text[i].isspace() for i in taken)


def test_where_a_spanish_date_says_what():
    text, places = write_date(date(2021, 3, 4), "es"), where_written(date(2021, 3, 4), "es")
    assert {part: text[place] for part, place in places.items()} == {"day": "4", "month": "marzo", "year": "2021"}
