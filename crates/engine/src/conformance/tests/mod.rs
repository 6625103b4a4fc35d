//! Each rule accepts a client that keeps the protocol, and rejects one with the habit that it is there for.

mod fake;
mod service;

use super::check_result::RuleOutcome::{self, Broken, Kept, NotApplicable, NotTried, Note};
use super::registry::GROUPS;
use super::run::{RuleResult, check_all};
use fake::{FakeTestServers, Habits};
use fencepost_history::{Lease, LockKind};

async fn checked(kind: LockKind, lease: Lease, habits: Habits) -> Vec<RuleResult> {
    check_all(FakeTestServers::new(kind, lease, habits), &mut |_| {}).await.expect("the servers never fail")
}

/// Checks a client with a habit; the rule is to have this outcome, and a result with these words.
async fn finds(kind: LockKind, habits: Habits, rule: &str, outcome: RuleOutcome, words: &str) {
    let results = checked(kind, Lease::Ttl, habits).await;
    let found = results.iter().find(|result| result.name == rule).expect("such a point");
    assert_eq!(found.outcome, outcome, "{habits:?}: {found:#?}");
    assert!(found.seen.contains(words), "{habits:?}: {}", found.seen);
    if matches!(outcome, Broken | Note) {
        assert!(found.change.is_some(), "{found:?} says what to change");
        assert!(found.lines.iter().any(|line| line.contains("c1 ") || line.contains("c2 ")), "{found:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_bad_habits_keeps_every_point() {
    for kind in LockKind::ALL {
        let results = checked(kind, Lease::Ttl, Habits::default()).await;
        let kept = |result: &RuleResult| result.outcome == Kept || result.name == "renewal";
        assert!(results.iter().all(kept), "{kind}: {results:#?}");
        let all = GROUPS.iter().map(|group| group.len()).sum::<usize>();
        assert_eq!(results.len(), if kind.announced().is_none() { all - 1 } else { all }, "{kind}");
        let mut names: Vec<&str> = results.iter().map(|result| result.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), results.len(), "each name is there once");
    }
}

#[tokio::test(start_paused = true)]
async fn points_of_ttls_do_not_apply_to_a_lock_without_a_lease() {
    let results = checked(LockKind::Mutex, Lease::None, Habits::default()).await;
    let apply_not = results.iter().filter(|result| result.outcome == NotApplicable);
    let names: Vec<&str> = apply_not.map(|result| result.name).collect();
    assert_eq!(names, ["validity", "client-gone", "process-over", "late-release", "renewal"]);
}

#[test]
fn every_point_has_its_row_in_the_manual() {
    let page = include_str!("../../../../../docs/your-own-lock.md");
    for rule in GROUPS.iter().flat_map(|group| group.iter()) {
        assert!(
            page.contains(&format!("| `{}` |", rule.name)),
            "docs/your-own-lock.md has no row for {}",
            rule.name
        );
    }
}

macro_rules! habits {
    ($kind:expr; $($test:ident: $($habit:ident),+ => $rule:literal $outcome:ident $words:literal;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() {
            finds($kind, Habits { $($habit: true,)+ ..Habits::default() }, $rule, $outcome, $words).await;
        }
    )*};
}

habits! {
    LockKind::Semaphore;
    permits_that_are_one_lock_are_found: ignores_what_is_asked => "together" Broken "while 1 held one of 3 permits, the next acquire was answered";
    a_permit_too_many_is_shown: grants_one_too_many => "together" Note "while 3 held the 3 permits";
}

habits! {
    LockKind::Election;
    a_leader_that_is_not_named_is_found: names_no_leader => "leader" Broken "another client's answer to who leads was `ok`, null";
    a_leader_that_is_named_for_ever_is_shown: remembers_its_leader => "leader" Note "and another client still answered that it leads";
}

habits! {
    LockKind::Reentrant;
    a_holder_that_is_refused_is_found: refuses_its_holder => "together" Broken "a `reenter` of the holder was answered with `fail`";
    a_lock_that_an_inner_release_frees_is_shown: leaves_at_once => "together" Note "was granted the lock after a `leave` of its holder";
}

habits! {
    LockKind::Several;
    a_set_of_which_only_one_name_is_taken_is_shown: takes_the_first_name => "together" Note "a set was granted although another process held one of its names";
    half_a_set_that_is_left_taken_is_found: leaves_half_a_set => "together" Broken "an acquire of its free name was answered with `fail`";
}

habits! {
    LockKind::ReadWrite;
    readers_that_exclude_each_other_are_found: ignores_what_is_asked => "together" Broken "while 1 held the lock to read, the next acquire was";
    a_writer_beside_readers_is_shown: lets_readers_write => "together" Note "a writer was granted the lock that two readers held";
}

habits! {
    LockKind::Mutex;
    a_late_hello_is_found: is_slow_to_start => "hello" Broken "did not answer the hello within 5 s; its last line on standard error is `a last line`";
    an_unknown_word_is_found: announces_nonsense => "hello" Broken "unknown word nonsense";
    points_after_a_bad_hello_are_not_tried: announces_nonsense => "grant" NotTried "not tried after the rule hello";
    a_line_of_its_own_is_found: prints => "grant" Broken "`granted, I think`";
    a_second_answer_is_found: answers_twice => "grant" Broken "which no open operation has";
    a_release_without_believed_is_found: forgets_believed => "grant" Broken "had the value {}";
    keys_of_one_end_are_found: locks_the_end_of_a_name => "keys" Broken "held 1-check-3-key, another client's acquire of 2-check-3-key";
    keys_of_one_beginning_are_found: locks_the_beginning_of_a_name => "keys" Broken "both names lead to one lock";
    nothing_is_unchecked_after_keys_that_are_one_lock: locks_the_beginning_of_a_name => "peace" NotTried "after the rule keys";
    processes_in_line_are_found: waits_in_line => "processes" Broken "waited for a lock";
    a_long_wait_is_found: overruns => "time-out" Note "with a time-out of 1.000 s ended after 2.0";
    a_grant_of_a_taken_lock_is_shown: never_asks => "time-out" Note "was granted the lock after";
    a_release_that_does_nothing_is_found: keeps_on_release => "next" Broken "another client's acquire ended with";
    a_belief_without_end_is_found: believes_for_ever => "holds" Broken "holds before the first acquire: true";
    a_validity_beyond_the_ttl_is_found: promises_too_much => "validity" Broken "for 2000 ms was reported as valid for 2001 ms";
    a_validity_that_counts_from_the_question_is_shown: counts_from_the_question => "validity" Note "of a lock that was waited for 1.0";
    a_token_that_does_not_grow_is_found: repeats_tokens => "tokens" Broken "the token 7 came after one with 7";
    a_lease_without_end_is_found: ignores_ttl => "client-gone" Broken "its client was killed, the lock was still taken";
    a_renewal_without_end_is_found: ignores_over => "process-over" Broken "the line `over`, the lock was still taken";
    a_blind_release_is_shown: releases_blindly => "late-release" Note "was then granted the lock that process";
    an_unsure_late_release_is_shown: is_unsure_of_release => "late-release" Note "the next holder kept the lock";
    a_library_that_refuses_a_free_lock_is_shown: refuses => "grant" Note "the acquire of a free lock was answered with `fail`, `refused-by-library";
    points_without_a_grant_are_not_tried: refuses => "processes" NotTried "not tried after the rule grant";
    a_lock_that_ends_early_is_shown: ends_early => "client-gone" Note "earlier than the TTL of 2.000 s";
    a_late_release_that_was_not_late_is_shown: ends_early => "late-release" Note "which holds it for a TTL of 2.000 s";
    renewals_that_are_never_reported_are_shown: announces_renewals => "renewal" Note "reported no renewal of a lock that was held for 4.000 s";
    a_prolong_that_is_none_is_shown: only_says_that_it_prolongs => "prolong" Note "had prolonged it for 2.000 s";
    a_held_lock_that_is_not_prolonged_is_found: prolongs_nothing => "prolong" Broken "was not prolonged: the answer was `fail`";
    a_prolong_of_another_s_lock_is_shown: prolongs_blindly => "prolong" Note "prolonged the lock that process";
    a_call_that_goes_on_when_it_is_given_up_is_found: ignores_cancels => "cancel" Broken "ended only after 2.0";
    a_lock_that_a_call_left_when_it_was_given_up_is_shown: leaves_what_is_given_up => "cancel" Note "stayed taken after process";
    two_holders_without_faults_are_shown: never_asks => "peace" Note "before process";
    errors_without_faults_are_found: is_unsure => "peace" Broken "TypeError: no";
    a_lock_that_is_hardly_granted_is_found: keeps_on_release => "peace" Broken "grants in 3 s to 4 processes";
    a_client_that_stays_is_found: outlives_its_input => "end-of-input" Broken "still ran 2 s after";
    a_certain_no_without_an_answer_is_found: is_certain_without_answer => "unanswered" Broken "when they went on the lock was taken";
    a_missing_answer_is_found: is_silent_without_answer => "unanswered" Broken "was not answered while all servers stood still for 1.3";
    a_grant_without_an_answer_is_found: never_asks => "unanswered" Broken "ended with `ok`";
    a_hidden_loss_is_found: hides_losses => "lost" Broken "sent no notice `lost`";
    an_unsure_answer_of_an_unsent_request_is_shown: is_unsure_without_server => "unreachable" Note "ended with `info`, `raised: ConnectionError`";
    a_grant_without_servers_is_found: never_asks => "unreachable" Broken "ended with `ok`";
}
