//! The corpus of the fuzzer, and beginnings and mutilations of it: whatever a file holds, it is judged or
//! refused.

use fencepost_checker::read::{Edn, JsonLines, Lines, ReadOptions};
use fencepost_checker::{Algorithm, Budget, CheckOptions, ModelName, check_lines};
use std::time::Duration;

/// How many readings were judged, and how many refused.
fn judge(text: &[u8]) -> (usize, usize) {
    let (mut judged, mut refused) = (0, 0);
    for model in ModelName::ALL {
        for independent in [false, true] {
            let reading = ReadOptions { independent, ..Default::default() };
            let budget = Budget::new(Duration::from_secs(5), 1 << 26);
            let options = CheckOptions { algorithm: Algorithm::Auto, budget, evidence: true, witness: true };
            let readers: [Box<dyn Lines>; 2] = [Box::new(JsonLines::new(text)), Box::new(Edn::new(text))];
            for mut lines in readers {
                match check_lines(model, &mut *lines, &reading, &options) {
                    Ok(keys) => {
                        judged += 1;
                        for evidence in keys.iter().filter_map(|key| key.evidence.as_ref()) {
                            assert!(!evidence.to_string().is_empty());
                        }
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    (judged, refused)
}

#[test]
fn the_corpus_is_judged_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/histories");
    let (mut judged, mut refused) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("the corpus is there") {
        let text = std::fs::read(entry.expect("a file").path()).expect("it can be read");
        let mut count = |text: &[u8]| {
            let (ok, not) = judge(text);
            judged += ok;
            refused += not;
        };
        count(&text);
        for at in (0..text.len()).step_by(7) {
            count(&text[..at]);
            let mut changed = text.clone();
            changed[at] = b"{}[]\"\\:,0 -"[at % 11];
            count(&changed);
        }
    }
    assert!(judged > 200 && refused > 1000, "{judged} judged, {refused} refused");
}
