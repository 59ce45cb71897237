"""One standard for all: worlds whose labels are drawn by the others' standard; and verdicts that
know doubt."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import worlds
from butfor.errors import SettingError
from butfor.explain import flippable_labels
from butfor.models.engines import OwnFit
from butfor.models.trainer import Trainer
from butfor.report.page import person_page, population_page
from butfor.result.outcome import Outcome
from butfor.result.population import Population
from butfor.result.worlds import OneStandard, PersonInWorlds, World
from butfor.worlds import draw_world
from conftest import press
from recorded import LABELS, PLANTED, TABLE, Notes, fitted, run, wronged

PEOPLE, REFUSED, WRONGED = wronged(80, 1)
TRUTH = REFUSED.mask(WRONGED, "yes")


@pytest.fixture(scope="module")
def audit():
    return fitted(settings={"budget": 12})


@pytest.fixture(scope="module")
def population(audit):
    return audit.explain_all(PEOPLE, TRUTH)


ENCODER = butfor.TableEncoder("onehot", dtype="float64").fit(TABLE)


def decided(labels, people=PEOPLE):
    """By the model's own fit."""
    return (
        LogisticRegression()
        .fit(ENCODER.transform(TABLE), labels)
        .predict(ENCODER.transform(people))
    )


def test_worlds_are_what_the_models_own_fit_says_on_their_labels(audit):
    names = [f"P{k}" for k in range(len(PEOPLE))]
    (one,) = audit.one_standard(PEOPLE.set_axis(names), TRUTH.set_axis(names))
    assert one.probability.index.tolist() == names
    recorded = (LABELS == "yes").to_numpy()
    now, ours = decided(recorded), (PEOPLE["group"] == "b").to_numpy()
    assert (one.group, one.asked, one.people, one.refused) == (
        "b",
        80,
        ours.sum(),
        (ours & ~now).sum(),
    )
    in_worlds = []
    for world in one.worlds:
        drawn = draw_world(audit.standards(), "b", world.seed)
        flips = list(drawn.flips)
        assert (world.shortfall, world.flips) == (drawn.shortfall, len(flips))
        assert (TABLE["group"].to_numpy()[flips] == "b").all()
        assert not recorded[flips].any()
        labels = recorded.copy()
        labels[flips] = True
        then = decided(labels)
        assert world.turned == (ours & ~now & then).sum()
        assert world.rates["b"] == pytest.approx(then[ours].mean())
        assert world.accuracy == pytest.approx((then == (TRUTH == "yes")).mean())
        in_worlds.append(then)
    assert len(in_worlds) == 20
    share = np.mean(in_worlds, axis=0)
    np.testing.assert_allclose(one.probability, np.where(now, np.nan, share))
    assert one.expected == pytest.approx(share[ours & ~now].sum())
    assert one.rates["b"] == pytest.approx(now[ours].mean())
    assert [person.case for person in one.losing] == list(np.flatnonzero(now & (share < 0.5)))
    assert np.mean([world.flips for world in one.worlds]) == pytest.approx(
        audit.standards().of_group("b").missing, rel=0.25
    )
    gap, shortfalls = audit.standards().of_group("b"), [world.shortfall for world in one.worlds]
    assert np.mean(shortfalls) == pytest.approx(gap.difference, abs=gap.error)
    assert np.std(shortfalls) == pytest.approx(gap.error, rel=0.5)


def test_decisions_about_other_groups_are_counted_apart():
    blind = fitted(TABLE.drop(columns="group"), sensitive_features=TABLE["group"])
    (one,) = blind.one_standard(PEOPLE.drop(columns="group"), sensitive_features=PEOPLE["group"])
    ours = (PEOPLE["group"] == "b").to_numpy()
    assert one.probability[~ours].sum() > 1, "what the model cannot see concerns others too"
    assert one.expected == pytest.approx(one.probability[ours].sum())


def test_people_who_are_hurt_are_found(audit):
    (one,) = audit.one_standard(PEOPLE)
    before = (LABELS == "yes") | PLANTED  # before group b was wronged
    hurt = (PEOPLE["group"] == "b").to_numpy() & decided(before) & ~decided(LABELS == "yes")
    likely = one.probability.to_numpy() > 0.5
    assert (likely & hurt).sum() >= 0.8 * hurt.sum() > 5
    assert (likely & hurt).sum() >= 0.8 * likely.sum()
    low, high = one.interval
    assert low <= hurt.sum() <= high
    assert low <= one.expected <= high


def test_worlds_are_drawn_from_their_seeds_alone_in_whichever_order_people_are_asked_about(
    audit, population
):
    (first,) = population.one_standard
    assert audit.explain_all(PEOPLE, TRUTH, cases=range(len(PEOPLE))[::-1]).one_standard == (first,)
    standards = audit.standards()
    few = worlds.world_seeds(int(standards.places[standards.groups == "b"].min()), 0, 7)
    assert few == [world.seed for world in first.worlds[:7]]
    assert (
        len(
            set(worlds.world_seeds("b", 0))
            | set(worlds.world_seeds("b", 1))
            | set(worlds.world_seeds("a"))
        )
        == 60
    )
    drawn = draw_world(standards, "b", few[0], members=3, seeded=True)
    assert drawn.flips == draw_world(standards, "b", few[0]).flips
    assert len({training.seed for training in drawn.trainings}) == 3
    order = np.random.default_rng(5).permutation(len(TABLE))
    other = fitted(TABLE.iloc[order], LABELS.iloc[order]).standards()
    again = draw_world(other, "b", few[0])
    assert sorted(order[list(again.flips)]) == list(drawn.flips), (
        "the same labels, in whichever order rows stand"
    )


def test_worlds_do_not_depend_on_how_groups_and_labels_are_spelled(audit):
    codes, outcomes = {"a": "0", "b": "1"}, {"no": 0, "yes": 1}
    again = fitted(TABLE.assign(group=TABLE["group"].map(codes)), LABELS.map(outcomes), adverse=0)
    (coded,) = again.one_standard(PEOPLE.assign(group=PEOPLE["group"].map(codes)))
    (plain,) = audit.one_standard(PEOPLE)
    assert [(w.seed, w.flips, w.turned) for w in coded.worlds] == [
        (w.seed, w.flips, w.turned) for w in plain.worlds
    ]
    pd.testing.assert_series_equal(coded.probability, plain.probability)


def test_a_world_without_a_shortfall_changes_nothing(audit):
    found = audit.standards()
    better = [replace(c, difference=-0.2, error=0.0) for c in found.comparisons]
    drawn = [draw_world(replace(found, comparisons=tuple(better)), "b", seed) for seed in range(3)]
    assert [(world.shortfall, world.flips) for world in drawn] == [(-0.2, ())] * 3


class Hasty(Notes):
    """Presses Ctrl-C in the third world."""

    def phase(self, name, *_):
        self.left = 3 if name == "one standard for all" else np.inf

    def advance(self, count):
        self.left -= count
        if self.left == 0:
            press()


def test_ctrl_c_keeps_the_worlds_that_are_done(audit, population):
    (whole,) = population.one_standard
    audit.engine = "joblib"
    hasty = Hasty()
    stopped = audit.explain_all(PEOPLE, TRUTH, progress=hasty)
    (one,) = stopped.one_standard
    audit.engine = "auto"
    assert 1 <= len(one.worlds) <= 3
    assert one.worlds == whole.worlds[: len(one.worlds)]
    assert f"of {len(one.worlds)} worlds" in one.details()[0]
    assert any(f"Stopped after {len(one.worlds)} of 20 worlds" in line for line in hasty.lines)
    assert len(stopped) == len(PEOPLE)
    assert stopped.interrupted


def test_a_slow_learner_has_fewer_worlds_and_it_says_so(audit, monkeypatch):
    (whole,) = audit.one_standard(PEOPLE)
    monkeypatch.setattr(worlds, "WORLDS_SECONDS", 1e-9)
    notes = Notes()
    (few,) = audit.one_standard(PEOPLE, progress=notes)
    assert few.worlds == tuple(replace(world, accuracy=None) for world in whole.worlds[:5])
    assert any("5 worlds instead of 20" in line for line in notes.lines)
    assert "of 5 worlds" in few.details()[0]


def test_who_gains_who_loses_and_how_many_are_counted_from_the_worlds():
    rates = [
        World(seed, 0.1, 5, turned, {"b": 0.5 + turned / 10}, 0.8)
        for seed, turned in enumerate((0, 1, 2, 3))
    ]
    people = [PersonInWorlds(7, "r7", "b", True, 4), PersonInWorlds(1, "r1", "b", True, 2)]
    people += [PersonInWorlds(3, "r3", "a", True, 4), PersonInWorlds(0, "r0", "a", False, 3)]
    people += [PersonInWorlds(2, "r2", "b", False, 2)]
    one = OneStandard(
        attribute="race", group="b", labels=100, asked=8, people=4, refused=3, adverse_now=(1, 3, 5, 7),
        worlds=tuple(rates), changed=tuple(people), rates={"b": 0.5}, accuracy=0.85,
    )  # fmt: skip
    assert one.probability.tolist() == pytest.approx(
        [np.nan, 0.5, np.nan, 1, np.nan, 0, np.nan, 1], nan_ok=True
    )
    assert (one.expected, one.interval) == (1.5, (0, 3))
    assert [person.case for person in one.losing] == [0]
    assert one.about(7).endswith("this decision would change in 4 of 4 worlds.")
    assert one.about(5) == one.about(None) == ""
    assert "1 adverse decision about people of other groups" in " ".join(one.details())
    rare = replace(
        one, changed=(*people[:2], replace(people[2], worlds=3))
    )  # fewer than one, on average
    assert "other groups" not in " ".join(rare.details())
    nobody = replace(one, refused=0, worlds=(), changed=())
    assert "None of the 4 decisions" in nobody.sentence
    assert (nobody.details(), nobody.expected) == ([], 0.0)
    limited = replace(one, limited=True, changed=one.gaining)
    assert limited.sentence.endswith("nobody would lose theirs.")
    twenty = replace(
        one,
        worlds=tuple(World(k, 0.1, 5, n, {"b": n / 10}) for k, n in enumerate((0, *range(18), 40))),
    )
    assert twenty.interval == (0, 17), "the 5th and 95th percentile"
    assert twenty.rates_in_worlds["b"] == pytest.approx((0.965, 0, 1.7))


def test_the_record_carries_it_and_whoever_is_named_has_an_entry_on_the_page(population, tmp_path):
    (one,) = population.one_standard
    population.to_json(tmp_path / "audit.json")
    assert Population.from_json(tmp_path / "audit.json").run.one_standard == (one,)
    some = replace(
        population.run,
        one_standard=(replace(one, changed=(PersonInWorlds(999, "x", "b", True, 20),)),),
    )
    unknown = population_page(Population(population.verdicts, some))
    assert '<a href="#case-999">x</a>' in unknown
    own = unknown[unknown.index('<article id="case-999"') :].split("</article>")[0]
    assert "change in 20 of 20 worlds" in own
    assert "Not among the people examined" in own


def test_every_flip_carries_its_doubt_and_replays(audit, population):
    found = [v for v in population if v.found]
    assert found
    for verdict in found[:3]:
        for flip in verdict.flip_set:
            assert flip.doubt == pytest.approx(audit.fitted_.doubt[flip.position], abs=1e-4)
        assert verdict.doubted == sum(flip.doubt > 0.5 for flip in verdict.flip_set)
        assert "By the other groups" in person_page(verdict)
        assert butfor.replay(verdict).agrees
    assert "doubt of label" in population.keystones
    assert population.to_frame()["doubted"].notna().sum() == len(found)


def test_psi_doubted_allows_the_groups_doubted_labels_alone(audit):
    other = fitted(settings={"psi": "doubted(0.8)"}, adverse=None)
    allowed = np.array([*flippable_labels(other.fitted_, PEOPLE[:20])])
    decided = np.where(other.model_.logits(PEOPLE[:20]) > 0, "yes", "no")
    for mask, group, decision in zip(allowed, PEOPLE["group"], decided, strict=False):
        by_hand = (TABLE["group"] == group) & (decision == LABELS) & (audit.fitted_.doubt > 0.8)
        np.testing.assert_array_equal(mask, by_hand)
    assert other._standards is None  # doubt alone needs no draws


def test_worlds_of_networks_are_trained_under_seeds_of_their_own(monkeypatch):
    monkeypatch.setattr(worlds, "WORLDS_PER_GROUP", 4)
    network, settings = (
        butfor.MLP((4,), max_epochs=20, batch_size=64),
        {"members": 2, "fresh_seeds": 0},
    )
    audit = fitted(model=network, settings=settings)
    asked = []
    real = Trainer.ensemble_answers

    def ask(self, ensembles):
        asked.extend((world, self.table) for world in ensembles)
        return real(self, ensembles)

    monkeypatch.setattr(Trainer, "ensemble_answers", ask)
    (one,) = audit.one_standard(PEOPLE)
    assert len(one.worlds) == 4
    assert one.expected > 1
    assert len({training.seed for world, _ in asked for training in world}) == 8
    assert all(len({training.flips for training in world}) == 1 for world, _ in asked)
    # each world is trained again without flips under the same seeds, on the labels as they are
    asked, beside = asked[::2], asked[1::2]
    assert [[t.seed for t in control] for control, _ in beside] == [
        [t.seed for t in world] for world, _ in asked
    ]
    assert {(training.flips, table) for control, table in beside for training in control} == {
        ((), audit.table_)
    }
    person = one.gaining[0]

    def decided_by(trainings):
        own = [Trainer(OwnFit(), audit.learner_, table, PEOPLE, n_jobs=1) for _, table in trainings]
        return [
            real(trainer, [each])[0][person.case] > 0
            for trainer, (each, _) in zip(own, trainings, strict=True)
        ]

    assert np.mean(decided_by(asked)) == one.probability[person.case] == person.worlds / 4
    assert np.mean(decided_by(beside)) == person.control
    # the labels that stop its training early are those of one standard too
    X, y = audit.table_.validation
    changed = np.array([table.validation[1].to_numpy() != y.to_numpy() for _, table in asked])
    assert changed.any()
    assert not changed[:, ((X["group"] != "b") | (y != "no")).to_numpy()].any()


def test_a_difference_that_may_be_chance_flips_nothing():
    audit = fitted()
    by_chance = [replace(c, p_adjusted=0.06) for c in audit.standards().comparisons]
    audit._standards = replace(audit.standards(), comparisons=tuple(by_chance))
    assert audit.standards().of_group("b").missing > 20
    nothing = audit.one_standard(PEOPLE)
    assert nothing == ()
    assert repr(nothing) == f"{audit.standards().answer} No decision was tried under one standard."


def test_a_group_without_a_training_row_has_no_worlds_and_a_sentence_says_why(tmp_path, capsys):
    """Its labels stand in further rows alone: they are compared, but the model learned from none of
    them."""
    train = TABLE["group"] != "b"
    audit = fitted(TABLE[train], LABELS[train], also_labelled=(TABLE[~train], LABELS[~train]))
    assert audit.standards().of_group("b").short
    (one,) = audit.one_standard(PEOPLE)
    population = audit.explain_all(PEOPLE, cases=range(2))
    assert population.one_standard == (one,)
    assert (one.worlds, one.changed, one.outcome) == (
        (),
        (),
        Outcome("not asked", "no training rows"),
    )
    assert (
        "people with group = b is not known: the model learned from no label of theirs"
        in one.sentence
    )
    assert one.sentence in str(population)
    assert one.sentence.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}") in population_page(
        population
    )
    files = [tmp_path / "train.csv", tmp_path / "test.csv"]
    for path, rows in zip(
        files, (TABLE[train].assign(y=LABELS), TABLE.assign(y=LABELS)), strict=True
    ):
        rows.to_csv(path, index=False)
    question = (
        "--label",
        "y",
        "--sensitive",
        "group",
        "--adverse",
        "no",
        "--model",
        "logistic",
        "--budget",
        "2",
    )
    code, printed, _ = run(
        capsys, "audit", files[0], "--test", files[1], *question, "--cases", "0:2", "--quiet"
    )
    assert code == 0
    assert one.sentence in " ".join(printed.split())


def test_without_an_adverse_label_or_with_groups_too_small_there_is_none():
    audit = fitted(adverse=None)
    with pytest.raises(SettingError, match="rather not have: fit"):
        audit.standards()
    plain = audit.explain_all(PEOPLE[:3])
    assert plain.run.standard is None
    assert plain.standards == plain.one_standard == ()
    with pytest.raises(SettingError, match="adverse: there is no label 'maybe'"):
        fitted(adverse="maybe")
    notes = Notes()
    small = fitted(TABLE[:50], LABELS[:50]).explain_all(PEOPLE[:3], progress=notes)
    assert small.run.standard is None
    assert any("groups are not compared" in line for line in notes.lines)
    for rule in ("doubted(2)", "doubted('x')"):
        with pytest.raises(SettingError, match="must be a probability"):
            flippable_labels(fitted(settings={"psi": rule}).fitted_, PEOPLE[:2])


def test_other_labelled_rows_count_and_doubts_are_those_of_the_training_rows():
    audit = fitted(TABLE[::2], LABELS[::2], also_labelled=(TABLE[1::2], LABELS[1::2]))
    whole = butfor.compare_standards(
        TABLE, LABELS, sensitive_features="group", adverse="no", draws=20, n_jobs=1
    )
    assert audit.standards().comparisons == whole.comparisons, "the same table, however it is split"
    assert audit.labels()["doubt"].to_numpy() == pytest.approx(whole.doubt[::2], abs=1e-4)
    assert fitted(TABLE[::2], LABELS[::2]).standards().comparisons != whole.comparisons


def test_where_places_are_limited_losers_are_counted_and_verdicts_say_how_far_score_and_cut_moved():
    for_places = fitted(settings={"threshold": "top 40%", "budget": 12}, pool=PEOPLE).explain_all(
        PEOPLE, TRUTH
    )
    (one,) = for_places.one_standard
    gained, lost = (
        [p.worlds for p in one.changed if p.refused == refused] for refused in (True, False)
    )
    assert sum(gained) == sum(lost) > 0  # the people asked about are those who compete
    assert one.displaced == sum(lost) / len(one.worlds)
    assert one.sentence.endswith(
        f"Places are limited: about {one.displaced:.0f} of 80 people would lose theirs."
    )
    assert for_places.found
    for verdict in for_places.found:
        assert verdict.score < verdict.cut
        assert verdict.counterfactual_score >= verdict.counterfactual_cut
        assert f"cut {verdict.cut:.2f}"[:7] in verdict.sentence
    assert for_places.run.cut.startswith(
        "Decided 'yes': the best 40 % of 80 people, 32 of them, at a probability"
    )
    assert not for_places.advice
