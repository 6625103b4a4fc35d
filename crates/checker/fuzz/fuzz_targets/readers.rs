//! Whatever a file holds, it is judged or refused. The corpus beside it runs in the ordinary tests too.

#![no_main]

use fencepost_checker::read::{Edn, JsonLines, Lines, ReadOptions};
use fencepost_checker::{Algorithm, Budget, ModelName, CheckOptions, check_lines};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|text: &[u8]| {
    for model in ModelName::ALL {
        for independent in [false, true] {
            let reading = ReadOptions { independent, skip: vec![] };
            let budget = Budget::new(Duration::from_millis(50), 1 << 24);
            let wanted = CheckOptions { algorithm: Algorithm::Auto, budget, evidence: true, witness: true };
            let readers: [Box<dyn Lines>; 2] = [Box::new(JsonLines::new(text)), Box::new(Edn::new(text))];
            for mut lines in readers {
                let _ = check_lines(model, &mut *lines, &reading, &wanted);
            }
        }
    }
});
