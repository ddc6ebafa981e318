"""Every attack is handed in between honest submissions; what each earns, says and leaves behind is looked at."""

import ctypes
import os
import re
import sys
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from tests.pages import words
from tests.redteam import arena, machine
from tests.redteam.arena import HONEST, SECRETS, STOLEN, Attack

ATTACKS = arena.attacks()
SAMPLE = arena.sample(ATTACKS)  # the quick suite hands in no others
REST = [attack for attack in ATTACKS if attack not in SAMPLE]
ACTIVE = re.compile(r"^\s*(java|vb)script:|position\s*:|url\(|^(https?:)?//", re.IGNORECASE)
# The same must hold where an ordinary user grades: one attack of each class shows it, and those that say `also: user`.
CHOSEN = [attack for attack in ATTACKS if attack.also & {"user", "quick"}]
# Landlock does not bound a disk as a whole, nor one kernel's processes apart from the user's, and leaves on the disk
# what does not let itself be removed.
WEAKER = {"file_unremovable", "resource_fork_bomb"}
LANDLOCKED = [attack for attack in CHOSEN if "disk" not in attack.also and attack.name not in WEAKER]
FULL = [pytest.param(which, marks=pytest.mark.full) for which in ("attacked", "by_user", "by_landlock")]
rounds = pytest.mark.parametrize("which", ["sampled", *FULL])


class Round:
    """A course in which one round of grading has ended."""

    def __init__(self, folder: Path, handed_in: list[Attack], user: int = 0, **variables: str) -> None:
        self.course = arena.make_course(folder)
        arena.hand_in_honest(self.course)
        for attack in handed_in:
            arena.hand_in(self.course, attack.name, attack.cells, attack.code)
        before = self.files()
        # More than a hundred submissions: what is asked is not how fast the machine is.
        (self.left,) = arena.grade(self.course, user, variables=variables, seconds=3600.0)
        self.appeared = self.files() - before
        self.log = arena.log(self.course)
        self.scores = arena.scores(self.course)

    def files(self) -> set[str]:
        """The files of the course and of the home folder."""
        top = self.course.parent
        return {
            str(Path(folder, name).relative_to(top))
            for start in (self.course, top / "home")
            for folder, _, files in os.walk(start)
            for name in files
        }


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """The honest submissions alone."""
    return Round(tmp_path_factory.mktemp("quiet"), [])


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """One attack of each class, the honest submissions between them."""
    return Round(tmp_path_factory.mktemp("sampled"), SAMPLE)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """All other attacks, the honest submissions between them."""
    return Round(tmp_path_factory.mktemp("attacked"), REST)


@pytest.fixture(scope="module")
def by_user(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """Some attacks against a grader that an ordinary user runs."""
    if reason := machine.why_not_another_user():
        pytest.skip(reason)
    return Round(tmp_path_factory.mktemp("user"), CHOSEN, machine.ORDINARY)


@pytest.fixture(scope="module")
def by_landlock(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """The same where there is no bubblewrap: Landlock alone."""
    if reason := machine.why_not_another_user():
        pytest.skip(reason)
    if ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 1:
        pytest.skip("this kernel has no Landlock")
    folder = tmp_path_factory.mktemp("landlock")
    return Round(folder, LANDLOCKED, machine.ORDINARY + 1, PATH=str(Path(sys.executable).parent))


def named(attacks: list[Attack]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("attack", attacks, ids=[attack.name for attack in attacks])


def holds(graded: Round, attack: Attack) -> None:
    """The four promises, for one attack."""
    assert graded.scores.get(attack.name) == attack.score
    page = arena.pages(graded.course, attack.name)
    text = words(page)
    for phrase in attack.says:
        assert phrase in text, text[-3000:]
    assert what_is_active(page) == []
    note = arena.note(graded.course, attack.name)
    for phrase in attack.noted:
        assert phrase in note.replace("\\", ""), note
    for notebook in arena.graded(graded.course, attack.name):
        assert STOLEN not in arena.outputs(notebook)
    leaked = [name for name, secret in SECRETS.items() if secret in page + note]
    for notebook in arena.graded(graded.course, attack.name):
        leaked += [name for name, secret in SECRETS.items() if secret in str(notebook)]
    assert leaked == []


class Active(HTMLParser):
    """Finds what of a page would run, load or cover something."""

    TAGS = frozenset({"script", "iframe", "object", "embed", "svg", "form", "style", "link", "meta", "base"})

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.inside = self.inside or tag == "body"
        wrong = [f"{k}={v}" for k, v in attributes if k.startswith("on") or ACTIVE.search(v or "")]
        if self.inside and (tag in self.TAGS or wrong):
            self.found.append(f"{tag} {wrong}")


def what_is_active(page: str) -> list[str]:
    """What of a page would run, load or cover something, or tell a terminal what to do."""
    parser = Active()
    parser.feed(page)
    return parser.found + sorted({repr(c) for c in page if unicodedata.category(c) == "Cc" and c not in "\t\n\r"})


@named(SAMPLE)
def test_attack_of_the_sample(sampled: Round, attack: Attack) -> None:
    holds(sampled, attack)


@pytest.mark.full
@named(REST)
def test_attack(attacked: Round, attack: Attack) -> None:
    holds(attacked, attack)


@pytest.mark.full
@named(CHOSEN)
def test_attack_on_an_ordinary_user(by_user: Round, attack: Attack) -> None:
    holds(by_user, attack)


@pytest.mark.full
@named(LANDLOCKED)
def test_attack_where_there_is_landlock_alone(by_landlock: Round, attack: Attack) -> None:
    holds(by_landlock, attack)


@rounds
@pytest.mark.parametrize("student", HONEST)
def test_honest_submissions_get_what_they_earned(which: str, student: str, request: pytest.FixtureRequest) -> None:
    graded = request.getfixturevalue(which)
    assert graded.scores[student] == HONEST[student][1]
    assert arena.note(graded.course, student) == ""


@pytest.mark.full
@pytest.mark.parametrize("which", ["attacked", "by_user", "by_landlock"])
@pytest.mark.parametrize("student", HONEST)
def test_honest_submissions_are_graded_as_if_alone(
    quiet: Round, which: str, student: str, request: pytest.FixtureRequest
) -> None:
    graded = request.getfixturevalue(which)
    assert quiet.scores[student] == HONEST[student][1]
    assert arena.verdicts(quiet.course, student) == arena.verdicts(graded.course, student)
    assert arena.page_without_numbers(quiet.course, student) == arena.page_without_numbers(graded.course, student)


@rounds
def test_nothing_is_left_behind(which: str, request: pytest.FixtureRequest) -> None:
    graded = request.getfixturevalue(which)
    assert graded.left.processes == []
    assert graded.left.files == []
    assert graded.left.sockets == []


@rounds
def test_the_course_gets_what_nbgrader_makes_and_nothing_else(which: str, request: pytest.FixtureRequest) -> None:
    graded = request.getfixturevalue(which)
    made = r"course/(autograded|labs|integrity|\.headroom)/|course/(gradebook\.db|grades\.csv|.*\.log)$"
    made += rf"|course/feedback/[^/]+/(index|{arena.LAB}/{arena.NOTEBOOK})\.html$"
    assert [path for path in sorted(graded.appeared) if not re.match(made, path)] == []
    home = {
        path.relative_to(graded.course.parent / "home"): path.read_text()
        for path in (graded.course.parent / "home").rglob("*")
        if path.is_file()
    }
    assert set(home.values()) == {SECRETS["home"]}
    assert len(home) == 4


@rounds
def test_everybody_is_graded(which: str, request: pytest.FixtureRequest) -> None:
    graded = request.getfixturevalue(which)
    assert graded.left.status == 0, graded.log[-6000:]
    assert "\x1b" not in graded.log  # a terminal would obey
    assert graded.log.count("isolated less well than it could be, by Landlock alone") == (which == "by_landlock")
