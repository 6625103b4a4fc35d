//! Literal verdicts of a lock and of its reference.

use super::*;
use fencepost_checker::{OtherCause, Verdict};

/// A property that was violated: classes, and whose failure each is.
fn broken(checker: &str, findings: &[(&str, Whose)]) -> Verdict {
    let finding = |(class, whose): &(&str, Whose)| Finding {
        class: (*class).to_owned(),
        whose: Some(*whose),
        ..Finding::default()
    };
    Verdict::new(checker, Outcome::Violation, "").with_findings(findings.iter().map(finding).collect())
}

fn held(checker: &str) -> Verdict {
    Verdict::new(checker, Outcome::Valid, "")
}

fn verdict(verdicts: &[Verdict]) -> RunVerdict {
    RunVerdict::of(verdicts.to_vec())
}

/// A lock that was granted twice and written late.
fn bad() -> RunVerdict {
    verdict(&[
        broken("exclusion", &[("granted-twice", Whose::Library), ("overstayed", Whose::NoFence)]),
        broken("lost-updates", &[("written-late", Whose::NoFence)]),
        held("ownership"),
    ])
}

/// A lock that was written late only.
fn late() -> RunVerdict {
    verdict(&[
        held("exclusion"),
        broken("lost-updates", &[("written-late", Whose::NoFence)]),
        held("ownership"),
    ])
}

fn good() -> RunVerdict {
    verdict(&[held("exclusion"), held("lost-updates"), held("ownership")])
}

fn untested() -> RunVerdict {
    verdict(&[Verdict::new("vacuous", Outcome::Vacuous, "")])
}

fn against(own: &RunVerdict, reference: &[RunVerdict]) -> Against {
    let play =
        |verdict: &RunVerdict| ReferencePlay::Judged("redis-single-7".to_owned(), verdict.clone().into());
    let plays: Vec<ReferencePlay> = reference.iter().map(play).collect();
    compare("./my-lock", "redis-single", own, &plays, true)
}

fn shown(own: &RunVerdict, reference: &[RunVerdict]) -> String {
    console::set_colors_enabled(false);
    text(&against(own, reference))
}

#[test]
fn what_the_reference_never_shows_is_worse_and_what_it_shows_once_equal() {
    assert_eq!(
        shown(&bad(), &[late(), good(), late()]),
        "against   redis-single, under the same faults: 3 runs\n\
         worse     mutual exclusion: granted twice (the library); redis-single in 0 of 3 runs (0 to 63 %)\n\
         equal     mutual exclusion: overstayed (no fence); redis-single in 2 of 3 runs (9 to 99 %)\n\
         equal     the data: written late (no fence); redis-single in 2 of 3 runs (9 to 99 %)\n"
    );
}

#[test]
fn where_nothing_differs_it_is_one_line() {
    assert_eq!(
        shown(&late(), &[late(), late(), late()]),
        "against   redis-single, under the same faults: 3 runs\n\
         equal     redis-single shows the same: the data: written late (no fence) in 3 of 3 runs (37 to 100\n\
         \u{20}         %)\n"
    );
    assert_eq!(
        shown(&good(), &[good()]),
        "against   redis-single, under the same faults: 1 run\n\
         equal     nothing that redis-single does not show: neither violates anything\n"
    );
}

#[test]
fn what_only_the_reference_shows_is_better() {
    let text = shown(&late(), &[bad(), untested(), late()]);
    assert_eq!(
        text,
        "against   redis-single, under the same faults: 3 runs, 1 of them without a result\n\
         equal     the data: written late (no fence); redis-single in 2 of 2 runs (22 to 100 %)\n\
         better    mutual exclusion: granted twice (the library); redis-single in 1 of 2 runs (1 to 99 %)\n"
    );
    let play = ReferencePlay::Judged(String::new(), bad().into());
    let cut = compare("./my-lock", "redis-single", &good(), &[play], false);
    assert_eq!(cut.differences, [], "a run that ended early is no better");
}

#[test]
fn without_a_decided_run_nothing_is_compared() {
    assert_eq!(
        shown(&bad(), &[untested(), untested()]),
        "against   redis-single, not compared: each run of redis-single ended vacuous\n"
    );
    assert_eq!(
        shown(&untested(), &[good()]),
        "against   redis-single, not compared: the lock's own run ended vacuous\n"
    );
    let failed = ReferencePlay::Failed("n1 does not answer".to_owned());
    let failed = compare("./my-lock", "redis-single", &bad(), &[failed], true);
    assert_eq!(failed.not_compared.unwrap(), "the run of redis-single failed: n1 does not answer");
}

#[test]
fn properties_that_one_of_the_two_does_not_claim_are_no_better_and_the_worse_says_so() {
    let tokens = verdict(&[held("exclusion"), broken("fencing", &[("backwards", Whose::Library)])]);
    let text = shown(&tokens, &[good()]);
    assert!(text.contains("backwards (the library); no run of redis-single judged that"), "{text}");
    assert_eq!(against(&verdict(&[held("exclusion")]), &[tokens]).differences, []);
}

#[test]
fn a_busy_machine_and_another_party_are_kept_apart() {
    let of = |whose| verdict(&[broken("exclusion", &[("overstayed", whose)])]);
    let standings = |own, reference| {
        let differences = against(&of(own), &[of(reference)]).differences;
        differences.iter().map(|each| each.standing).collect::<Vec<_>>()
    };
    assert_eq!(standings(Whose::Machine, Whose::Machine), []);
    assert_eq!(standings(Whose::Service, Whose::Library), [Standing::Equal]);
    assert_eq!(standings(Whose::Library, Whose::NoFence), [Standing::Worse, Standing::Better]);
}

#[test]
fn the_reference_decides_between_two_causes() {
    let open = |whose| {
        let mut verdict = broken("exclusion", &[("granted-twice", whose)]);
        verdict.findings[0].or = Some(OtherCause { whose: Whose::Library, decides: String::new() });
        self::verdict(&[verdict])
    };
    let own = open(Whose::Service);
    let whose = |reference: &[RunVerdict]| against(&own, reference).differences[0].whose.clone();
    assert_eq!(whose(&vec![good(); 10]), [Whose::Library]);
    assert_eq!(whose(&vec![good(); 9]), [Whose::Service], "too few to say that the servers never do it");
    let shows_it = verdict(&[broken("exclusion", &[("granted-twice", Whose::Service)])]);
    assert_eq!(whose(&[vec![good(); 10], vec![shows_it]].concat()), [Whose::Service]);
}

#[test]
fn it_is_kept_beside_the_run() {
    let against = against(&bad(), &[late()]);
    let json = serde_json::to_string(&against).unwrap();
    assert!(json.contains(r#""standing":"worse","checker":"exclusion","class":"granted-twice""#), "{json}");
    assert_eq!(serde_json::from_str::<Against>(&json).unwrap(), against);
}
