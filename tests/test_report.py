"""The report on a class: what it counts, what it says first, whom it finds alike; nothing of a student's acts in it."""

import csv
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe

from autograder.course import course_of
from autograder.exercises import EXERCISES
from autograder.pipeline.recorded import KEY, record, verdicts
from autograder.report import findings
from autograder.report.findings import NAMELESS, Findings, find
from autograder.report.gather import Check, Class, HandIn, Lab
from autograder.report.likeness import WHOLE, alike, pieces
from autograder.report.page import html, tables
from autograder.verdict import Result, Verdict, not_judged
from headroom.mistakes import catalogue, taught
from tests import pupils

REPOSITORY = Path(__file__).resolve().parents[1]
WRONG = Result("agrees", 1.0, False)
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"


# --- A class of paper ------------------------------------------------------------------------------------------------


def check(share: float, *mistakes: str, attempted: bool = True, in_short: str = "") -> Check:
    return Check(share, share == 1.0, attempted, in_short, {title: f"What {title} does." for title in mistakes})


def hand_in(attempts: list[dict[str, list[str]]] | None = None, **checks: Check) -> HandIn:
    last = {exercise: list(one.mistakes) for exercise, one in checks.items()}
    return HandIn(checks, [*(attempts or []), last], {})


def sample() -> Class:
    """Twelve students: no mask for five, a root forgotten by three of whom two mended it, three who stopped."""
    first = Lab("lab01", "Lab 1 · One", {"mask": 6.0, "root": 4.0}, [{}, {}])
    second = Lab("lab02", "Lab 2 · Two", {"heads": 10.0}, [{}, {}])
    for i in range(12):
        student = f"s{i:02}"
        mask = check(0.5, "no mask") if i < 5 else check(0.25) if i == 5 else check(1.0)
        before = [{"mask": [], "root": ["no root"]}] if i in (6, 7) else None
        root = check(0.25, "no root") if i == 0 else check(1.0)
        first.handed_in[student] = hand_in(before, mask=mask, root=root)
        if i not in (0, 1, 2):
            second.handed_in[student] = hand_in(heads=check(0.5 if i < 6 else 1.0))
    return Class([first, second], {f"s{i:02}": f"s{i:02}" for i in range(12)} | {"zoe": "Zoe Z."})


def test_what_was_never_judged_is_nothing_to_teach_again() -> None:
    lab = Lab("lab01", "Lab 1 · One", {"mask": 6.0}, [{}])
    for i in range(4):
        undefined = replace(check(0.0, in_short="mask is not defined"), judged=False)
        lab.handed_in[f"s{i}"] = hand_in(mask=undefined if i < 3 else check(1.0))
    of = find(Class([lab], {student: student for student in lab.handed_in}), section)
    assert [one.title for one in of.mistakes] == ["mask is not defined"] and not of.again


def section(exercise: str, title: str) -> str:
    return {"no mask": "Lecture 2", "no root": "Lecture 1"}.get(title, f"about {exercise}")


@pytest.fixture(scope="module")
def found() -> Findings:
    return find(sample(), section)


def test_what_most_need_comes_first(found: Findings) -> None:
    said = [(one.section, len(one.students), one.of) for one in found.again]
    # The six of whom nobody knows why are in one exercise three, in the other one; one alone is no matter for a class.
    assert said == [("Lecture 2", 5, 12), ("about heads", 3, 9)]
    page = html(found)
    assert (
        page.index("What to teach again") < page.index("Lecture 2") < page.index("about heads") < page.index("Scores")
    )


def test_a_card_parts_the_mistakes_that_its_section_is_about_from_the_others() -> None:
    """Else it seems that to teach the section again would mend what has no name, too."""
    lab = Lab("lab01", "Lab 1 · One", {"mask": 6.0, "root": 4.0}, [{}, {}])
    for i, mistake in enumerate(("no mask", "no axes", "no axes", "")):
        mask = check(0.5, mistake) if mistake else check(0.0, in_short="too slow")
        lab.handed_in[f"s{i}"] = hand_in(mask=mask, root=check(0.5, "no mask" if i else "no axes"))
    sections = {("root", "no mask"): "Lecture 2", ("root", ""): "Lecture 1"}
    of = Class([lab], {})
    found = find(of, lambda exercise, title: sections.get((exercise, title), sections.get((exercise, ""), "Lecture 2")))
    shown = {
        one.section: [[(mistake.exercise, mistake.title) for mistake in part] for part in one.parts]
        for one in found.again
    }
    # That of the mask is about masks: the one about no mask is named for it in the other exercise.
    treated, exercise = [("root", "no mask"), ("mask", "no mask")], [("mask", "no axes"), ("mask", "too slow")]
    assert shown == {"Lecture 2": [treated, exercise]}
    page = html(found)
    assert page.index("no mask") < page.index("No section is named for these") < page.index("no axes")
    assert {row["mistake"]: row["section_is_on"] for row in tables(found)["mistakes"]} == {
        "no mask": "the mistake",
        "no axes": "the exercise",
        "too slow": "the exercise",
    }
    (only,) = find(of).again[:1]
    assert only.parts[1] == [] and "No section" not in html(find(of)), "of a course that names no sections"


def test_mistakes_come_by_how_many_make_them(found: Findings) -> None:
    counts = [(len(one.now), len(one.ever)) for one in found.mistakes]
    assert counts == sorted(counts, reverse=True) and counts[0] == (5, 5)
    assert [row["now"] for row in tables(found)["mistakes"]] == [now for now, _ in counts]


def test_mistakes_are_counted_as_they_are_now_and_as_they_were(found: Findings) -> None:
    by_title = {(one.exercise, one.title): one for one in found.mistakes}
    root = by_title["root", "no root"]
    assert (root.after, root.now, root.ever) == ([3, 1], ["s00"], ["s00", "s06", "s07"])
    assert by_title["mask", NAMELESS].now == ["s05"]
    assert by_title["heads", NAMELESS].of == 9
    assert "3 → 1" in html(found)


def test_what_kept_answers_from_being_right_is_counted_by_what_it_is() -> None:
    """And nothing of it is a mistake, or has one's section."""
    said = ["it raised ValueError", "it raised ValueError", "too slow", HOSTILE, "", "never counted"]
    lab = Lab("lab01", "Lab 1", {"mask": 6.0}, [{}, {}])
    for i, in_short in enumerate(said):
        lab.handed_in[f"s{i}"] = hand_in(mask=check(0.0, attempted=in_short != "never counted", in_short=in_short))
    found = find(Class([lab], {}), lambda exercise, title: title or "about it")
    assert {one.title: one.now for one in found.mistakes} == {
        "it raised ValueError": ["s0", "s1"],
        "too slow": ["s2"],
        HOSTILE: ["s3"],
        NAMELESS: ["s4"],
    }
    assert {one.section for one in found.mistakes} == {"about it"}
    assert [(one.attempted, one.handed_in) for one in found.exercises] == [(5, 6)]
    assert HOSTILE not in html(found)


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (not_judged("Mean", "it raised ValueError: shape. (2, 3)"), "it raised ValueError"),
        (not_judged("Mean", "your code calls `torch.mean`. Write it."), "your code calls `torch.mean`"),
        (not_judged("Mean", "Mean is not defined: the cell that defines it is missing."), "Mean is not defined"),
        (Verdict("Mean", "2 of 3 cases agree.", (WRONG,), trouble="raises KeyError"), "raises KeyError in some cases"),
        (Verdict("Mean", "2 of 3 cases agree.", (WRONG,)), ""),
    ],
)
def test_a_verdict_says_in_short_what_kept_an_answer_from_being_right(verdict: Verdict, said: str) -> None:
    assert record(verdict)[KEY]["in_short"] == said


def test_who_stopped_is_found_and_who_never_began_is_no_one_who_stopped(found: Findings) -> None:
    assert [(one.student, one.last.name, [lab.name for lab in one.missed]) for one in found.stopped] == [
        (student, "lab01", ["lab02"]) for student in ("s00", "s01", "s02")
    ]
    assert found.stopped[0].left_with == ["no mask", "no root"]
    assert found.never == ["zoe"]


def test_nobody_is_late_with_a_lab_that_few_have_handed_in() -> None:
    of = sample()
    for student in list(of.labs[1].handed_in)[2:]:
        del of.labs[1].handed_in[student]
    assert find(of).stopped == []


@pytest.mark.parametrize(
    ("own", "other", "words"),
    [
        ([i / 11 for i in range(12)], [i / 11 for i in range(12)], "does well elsewhere"),
        ([i / 11 for i in range(12)], [1 - i / 11 for i in range(12)], "look at the task"),
        ([1.0] * 12, [i / 11 for i in range(12)], "tells nobody apart"),
        ([0.0, 1.0], [0.0, 1.0], "too few"),
        ([0.0, 1.0] * 6, [0.0, 0.0, 1.0, 1.0] * 3, "says little"),
    ],
)
def test_what_tells_apart_is_said_in_words(own: list[float], other: list[float], words: str) -> None:
    lab = Lab("lab01", "Lab 1", {"a": 1.0, "b": 1.0}, [{}, {}])
    for i, (a, b) in enumerate(zip(own, other, strict=True)):
        lab.handed_in[f"s{i}"] = hand_in(a=check(a), b=check(b))
    [asked, _] = find(Class([lab], {})).exercises
    assert words in asked.words


def test_points_and_shares() -> None:
    lab = sample().labs[0]
    assert findings.earned(lab, "s00") == pytest.approx(0.5 * 6 + 0.25 * 4)
    assert findings.earned(lab, "nobody") is None
    assert findings.shares(lab)[0] == pytest.approx(0.4) and findings.shares(lab)[-1] == 1.0


def test_the_csv_files_say_the_same(found: Findings) -> None:
    rows = tables(found)
    assert [(row["section"], row["students"]) for row in rows["teach_again"]] == [("Lecture 2", 5), ("about heads", 3)]
    assert len(rows["scores"]) == 12 * 2 + 9
    assert {row["mistake"]: row["after_each_hand_in"] for row in rows["mistakes"]}["no root"] == "3 1"
    assert [row["student"] for row in rows["stopped"]] == ["s00", "s01", "s02", "zoe"]


# --- Alike -----------------------------------------------------------------------------------------------------------

LONG = '''
def attend(q, k, v, mask=None):
    """Attention."""
    rows = []
    for i in range(q.size(-2)):
        score = (q[..., i : i + 1, :] * k).sum(-1) / k.size(-1) ** 0.5
        if mask is not None:
            score = score.masked_fill(~mask[..., i, :], float("-inf"))
        score = score - score.amax(-1, keepdim=True)
        weight = score.exp()
        weight = weight / weight.sum(-1, keepdim=True)
        rows.append((weight.unsqueeze(-1) * v).sum(-2))
    return torch.stack(rows, dim=-2)
'''
OTHER = """
def attend(q, k, v, mask=None):
    scores = torch.einsum("...id,...jd->...ij", q, k).div(math.sqrt(q.shape[-1]))
    bias = torch.zeros_like(scores)
    if mask is not None:
        bias = torch.where(mask, bias, torch.full_like(bias, -1e30))
    weights = F.softmax(scores.add(bias), dim=-1)
    result = torch.einsum("...ij,...jd->...id", weights, v)
    return result.contiguous(), weights.clone()
"""


def groups(*given: str, **cells: str) -> list[tuple[str, ...]]:
    own = {student: {"answer": text} for student, text in cells.items()}
    return [one.students for one in alike(own, [{"answer": text} for text in given])]


def test_a_copy_under_other_names_is_found() -> None:
    copy = pupils.renamed(LONG.replace("Attention.", "My own idea.").replace("mask=None", "mask: Tensor = None"))
    assert "rows" not in copy.replace("my_rows", "")
    assert groups(ann=LONG, bob=copy, cem=OTHER) == [("ann", "bob")]
    [one] = alike({name: {"answer": text} for name, text in (("ann", LONG), ("bob", copy))}, [])
    assert one.what == WHOLE and one.likeness == 1.0


def test_a_copy_with_a_line_changed_is_found_and_another_program_is_not() -> None:
    assert groups(ann=LONG, bob=LONG.replace("0.5", "0.25").replace("rows = []", "rows = list()")) == [("ann", "bob")]
    assert groups(ann=LONG, bob=OTHER) == []


def test_who_is_alike_by_way_of_another_is_in_the_same_group() -> None:
    def longer(by: int) -> str:
        return LONG + "".join(
            f"    more_{n} = torch.cat([q, v * {n}.5], dim={n}) - mask.sum({n + 7})\n" for n in range(by)
        )

    assert groups(ann=LONG, cem=longer(5)) == [], "too much of it is another's"
    assert groups(ann=LONG, bob=longer(2), cem=longer(5)) == [("ann", "bob", "cem")]


def test_what_everybody_is_given_is_no_likeness() -> None:
    assert groups(LONG, ann=LONG, bob=LONG) == [], "it is the model answer"
    assert groups(ann=LONG, bob=LONG, cem=LONG, dee=LONG) == [], "most of the class write it"
    assert groups(ann="def f(x):\n    return x + 1", bob="def f(y):\n    return y + 1") == [], "too short to tell"


def test_text_that_is_no_python_is_no_likeness() -> None:
    for text in (
        "%matplotlib inline\n" + LONG,
        "def",
        "\0",
        "(" * 10_000,
        "x = " + "-" * 50_000 + "1",
        "\ud800",
        "x = 0x" + "f" * 5_000,
    ):
        assert groups(ann=text, bob=text) == []


def test_answers_of_people_who_did_not_copy_are_mostly_not_alike() -> None:
    """Each right answer to an exercise, as it was written for the tests, is another student's."""
    module = importlib.import_module("tests.answers.right_attention")
    of = "scaled_dot_product_attention"
    cells = {
        name: {"attention": inspect.getsource(value).partition("\n")[2]}
        for name, value in vars(module).items()
        if getattr(value, "exercise", "") == of
    }
    assert len(cells) >= 10 and all(pieces(text["attention"]) for text in cells.values())
    assert alike(cells, []) == []


# --- The page --------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """The tags of a page, and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_nothing_of_a_students_acts_in_the_page_and_nothing_is_loaded() -> None:
    lab = Lab(HOSTILE, HOSTILE, {HOSTILE: 1.0}, [{}, {}])
    for student in (HOSTILE, "=HYPERLINK(1)"):
        checks = {HOSTILE: Check(0.0, False, True, HOSTILE, {HOSTILE: HOSTILE})}
        lab.handed_in[student] = HandIn(checks, [{HOSTILE: [HOSTILE]}], {"a": LONG + f"# {HOSTILE}"}, HOSTILE, HOSTILE)
    found = find(Class([lab], {HOSTILE: HOSTILE, "=HYPERLINK(1)": "=HYPERLINK(1)"}), lambda exercise, title: HOSTILE)
    assert found.alike
    page = html(found)
    seen = Tags(page).seen
    assert not {tag for tag, _ in seen} & {"script", "img", "iframe", "link", "object", "form", "base"}
    assert not [name for _, attributes in seen for name in attributes if name.startswith("on") or name == "src"]
    assert all(at["href"].startswith(("#", "../")) for tag, at in seen if tag == "a")
    assert "default-src 'none'" in page and not re.search(r"url\(|@import|https?:", page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_by_everybody_without_scripts(browser, found: Findings, tmp_path: Path, scheme) -> None:
    path = tmp_path / "index.html"
    path.write_text(html(found), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False, offline=True, color_scheme=scheme)
    plain, tab = context.new_page(), browser.new_page(color_scheme=scheme)
    try:
        plain.goto(path.as_uri())
        assert plain.get_by_role("heading", name="What to teach again").is_visible()
        tab.goto(path.as_uri())
        tab.set_viewport_size({"width": 380, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= 380
        violations = Axe().run(tab, options={"runOnly": ["wcag2a", "wcag2aa"]})
        assert violations.violations_count == 0, violations.generate_report()
    finally:
        context.close()
        tab.close()


def test_a_class_of_one_and_a_lab_of_nothing_give_a_page() -> None:
    lab = Lab("lab01", "Lab 1", {"mask": 1.0}, [{}, {}], {"ann": HandIn({}, [{}], {})})
    page = html(find(Class([lab], {"ann": "ann"})))
    assert "Nothing for the whole class" in page and "graded by an older version" in page


def test_what_is_kept_of_a_verdict_can_be_written_and_read() -> None:
    verdict = not_judged("LayerNorm", "it raised \ud800" + "x" * 10_000, attempted=False)
    cell = nbformat.v4.new_code_cell("check(LayerNorm)", metadata={"nbgrader": {"grade": True, "grade_id": "c"}})
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/plain": ""}, metadata=record(verdict))]
    written = nbformat.writes(nbformat.v4.new_notebook(cells=[cell])).encode()
    assert len(written) < 2000 and KEY.encode() in written
    assert verdicts({"autograded/ann/lab/a.ipynb": written, "feedback/a.html": b""}) == {
        "LayerNorm": {"score": 0.0, "mistakes": []}
    }


# --- Where lectures treat it -----------------------------------------------------------------------------------------


def headings() -> set[str]:
    found = set()
    for path in (REPOSITORY / "lectures").glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                found |= {f"{path.name[:2]} {title}" for title in re.findall(r"^## (.+)$", cell.source, re.MULTILINE)}
    return found


def test_every_section_that_treats_a_mistake_exists() -> None:
    there = headings()
    named = {one for topic in catalogue._topics() for one in sections(topic)}
    assert len(named) > 30 and named <= there


def sections(topic: str) -> set[str]:
    table = catalogue._table(topic)
    return {*table.get("sections", {})} | ({table["section"]} if "section" in table else set())


def test_every_exercise_has_a_section_and_lists_only_mistakes_of_its_own() -> None:
    course = course_of(REPOSITORY)
    exercises = [course.find(checked) for checked in checks_of_the_course()]
    assert len(exercises) == len(EXERCISES)
    for exercise in exercises:
        section = taught(exercise.name)
        assert section.startswith("Lecture ") and not re.search(r"[$`]", section), exercise.name
        topic = next(
            name for name in catalogue._topics() if name.replace("_", "") == exercise.name.replace("_", "").lower()
        )
        listed = {key for keys in catalogue._table(topic).get("sections", {}).values() for key in keys}
        assert listed <= {mistake.key for mistake in exercise.mistakes}, topic
    assert taught("LayerNorm", "no ε") == "Lecture 5, “A small variance needs ε, a large one shrinks the gradient”"
    assert taught("LayerNorm", "never heard of") == taught("LayerNorm")
    assert taught("nothing") == ""


def checks_of_the_course() -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted((REPOSITORY / "solutions").glob("*/*.ipynb"))]
    return [name for text in texts for name in re.findall(r'"check\((\w+)\)"', text)]


# --- A class that is graded ------------------------------------------------------------------------------------------

FIRST, SECOND = "lab01_attention", "lab02_multi_head"
RIGHT = ("right_attention.three_products", "right_attention.product_and_root", "right_attention.softmax_by_hand")
MASKED = "wrong_attention_3_scaled_dot_product_attention.weights_masked"
ROUNDS: list[dict[tuple[str, str], tuple[str, ...]]] = [
    {
        ("ann", FIRST): ("right_attention.three_products", "wrong_attention_2_attention_scores.not_divided", MASKED),
        ("bob", FIRST): (*RIGHT[:2], MASKED),
        ("cem", FIRST): (*RIGHT[:2], MASKED),
        ("dee", FIRST): RIGHT,
        ("ann", SECOND): ("right_multi_head.EinsumParameters",),
        ("bob", SECOND): ("right_multi_head.EinsumParameters",),  # under other names
        ("dee", SECOND): ("wrong_multi_head.NoOutputLayer",),
    },
    {("ann", FIRST): (RIGHT[0], RIGHT[1], MASKED), ("bob", FIRST): RIGHT},
]


@pytest.mark.full
def test_a_graded_class_is_reported(tmp_path: Path) -> None:
    course = tmp_path
    for name in ("solutions", "labs"):
        for lab in (FIRST, SECOND):
            shutil.copytree(REPOSITORY / name / lab, course / name / lab, ignore=shutil.ignore_patterns(".*"))
    shutil.copy(REPOSITORY / "nbgrader_config.py", course)
    shutil.copytree(REPOSITORY / "jupyter", course / "jupyter", ignore=shutil.ignore_patterns(".*"))
    assert "grade something first" in run(course, "report", status=1)
    for handed_in in ROUNDS:
        for (student, lab), answers in handed_in.items():
            texts = dict(map(pupils.text, answers))
            change = pupils.renamed if student == "bob" else str
            pupils.hand_in(course, student, lab, {pupils.CELLS[name]: change(text) for name, text in texts.items()})
        if "--no-isolation" in (said := run(course, "grade", "--workers", "1", status=None)):
            said = run(course, "grade", "--workers", "1", "--no-isolation", status=None)
        assert "mean score" in said and "NOT GRADED" not in said, said
    assert "report/index.html" in run(course, "report").replace(os.sep, "/")

    # By hand from ROUNDS: ann still masks after the softmax, and cem does; bob mended it, and ann the root.
    again, mistakes, stopped, alike = (table(course, name) for name in ("teach_again", "mistakes", "stopped", "alike"))
    assert [(row["section"], row["who"]) for row in again] == [
        ("Lecture 2, “A mask hides keys, before the softmax”", "ann cem")
    ]
    counted = {row["mistake"]: (row["now"], row["ever"], row["after_each_hand_in"]) for row in mistakes}
    assert counted == {
        "masked after the softmax": ("2", "3", "3 2"),
        "no scaling": ("0", "1", "1 0"),
        "no output projection": ("1", "1", "1"),
    }
    assert [(row["student"], row["last_lab"]) for row in stopped] == [("cem", FIRST)]
    assert {row["student"] for row in alike if row["lab"] == SECOND} == {"ann", "bob"}
    scores = {(row["student"], row["exercise"]): row for row in table(course, "scores")}
    assert scores["ann", "attention_scores"]["points"] == "5.0" and scores["ann", "attention_scores"]["hand_ins"] == "2"
    assert scores["cem", "scaled_dot_product_attention"]["points"] == "8.0"
    page = (course / "report" / "index.html").read_text(encoding="utf-8")
    links = [at["href"] for tag, at in Tags(page).seen if tag == "a" and at["href"].startswith("../")]
    assert links and all((course / "report" / link).is_file() for link in links)


def run(course: Path, *arguments: str, status: int | None = 0) -> str:
    """What a command of the grader prints."""
    done = subprocess.run(
        [sys.executable, "-m", "autograder", *arguments],
        cwd=course,
        env=os.environ | {"AUTOGRADER_COURSE": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert status in (None, done.returncode), done.stdout
    return done.stdout


def table(course: Path, name: str) -> list[dict[str, str]]:
    with (course / "report" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
