use super::*;
use crate::testing::literal::{maybe_verdict, verdict};

/// Process 1 writes, in two steps; process 2 reads in between, at the times given.
fn history(between: &str, end: &str) -> String {
    format!(
        "0   nemesis info lock - {{name:\"x\",kind:\"read-write\"}}
         0   1 invoke acquire a {{ttl_ms:2000}}
         10  1 ok     acquire a
         20  1 invoke write   a [\"pair\",7,0]
         30  1 ok     write   a 3
         {between}
         {end}"
    )
}

const READER: &str = "
         40  2 invoke acquire a {ttl_ms:2000,mode:\"shared\"}
         50  2 ok     acquire a
         60  2 invoke read    a
         70  2 ok     read    a [\"pair\",7,0]
         72  2 invoke release a
         74  2 ok     release a {believed:true}";

const WRITER: &str = "
         80  1 invoke write   a [\"pair\",7,7]
         90  1 ok     write   a 3
         95  1 invoke release a
         99  1 ok     release a {believed:true}";

#[test]
fn accepts_a_pair_that_is_read_before_and_after() {
    let after = READER.replace("7,0", "7,7");
    let verdict = verdict(&TORN_READS, &history(WRITER, &after.replace("         ", "         1")));
    assert_eq!(verdict.outcome, Outcome::Valid);
    assert_eq!(verdict.summary, "none of 1 reads found a pair that a writer was changing");
}

#[test]
fn rejects_a_read_in_the_middle_of_a_write() {
    let verdict = verdict(&TORN_READS, &history(READER, WRITER));
    assert_eq!(verdict.outcome, Outcome::Violation);
    assert_eq!(verdict.findings[0].class, TORN);
    assert_eq!(
        verdict.findings[0].sentence,
        "process 2, which held a as a reader from 0.050 s on, read at 0.070 s a pair when process 1 had changed \
         only one half, and process 1 still believed at 0.095 s that it held the lock"
    );
}

#[test]
fn a_writer_that_was_ended_leaves_half_of_a_pair_and_no_finding() {
    let verdict = verdict(&TORN_READS, &history(READER, ""));
    assert_eq!((verdict.outcome, &verdict.stats["left_half"]), (Outcome::Valid, &1.into()));
}

#[test]
fn a_reader_that_no_longer_believes_is_only_late() {
    let late = READER.replace("true", "false");
    let verdict = verdict(&TORN_READS, &history(&late, WRITER));
    assert_eq!((verdict.outcome, &verdict.stats["left_half"]), (Outcome::Valid, &1.into()));
}

#[test]
fn a_second_write_that_was_under_way_is_late() {
    let sent = "35  1 invoke write   a [\"pair\",7,7]";
    let arrived = "3000 1 ok    write   a 3\n3100 1 invoke release a\n3200 1 ok release a {believed:false}";
    let late = verdict(&TORN_READS, &history(&format!("{sent}\n{READER}"), arrived));
    assert_eq!(late.findings[0].class, TORN_LATE);
    let believed = arrived.replace("false", "true");
    let torn = verdict(&TORN_READS, &history(&format!("{sent}\n{READER}"), &believed));
    assert_eq!(torn.findings[0].class, TORN, "it held the lock until its write was answered");
    let never =
        verdict(&TORN_READS, &history(&format!("{sent}\n{READER}"), "3000 1 info write a null timeout"));
    assert_eq!(never.outcome, Outcome::Valid, "it may never have arrived");
}

#[test]
fn a_writer_that_reads_what_another_is_changing_is_beside_it() {
    let verdict = verdict(&TORN_READS, &history(&READER.replace(",mode:\"shared\"", ""), WRITER));
    assert!(verdict.findings[0].sentence.contains("held a as a writer"), "{}", verdict.findings[0].sentence);
}

#[test]
fn other_workloads_change_no_pair() {
    let set = history("", "").replace("[\"pair\",7,0]", "[7,0]");
    assert_eq!(maybe_verdict(&TORN_READS, &set), None);
}
