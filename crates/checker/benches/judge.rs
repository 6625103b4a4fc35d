//! How fast histories are judged. The table in the README is made from this.

#[path = "../../../benches/common/measure.rs"]
mod measure;

use fencepost_checker::models::{Codec, FencedMutex, Mutex, OwnerMutex, Register, RegisterOp, RegisterRet};
use fencepost_checker::read::KeyHistory;
use fencepost_checker::{
    Algorithm, AlgorithmAnswer, Budget, CheckOptions, FastPath, History, SearchOutcome, Watch, check_run,
    decide, explain, judge, search,
};
use fencepost_history::{Event, Kind, Process, Seed};
use generate::{Behaviour, Shape, generate};
use measure::measure;
use rand::RngExt;
use serde_json::{Value, json};
use std::hint::black_box;

#[path = "../tests/generate/mod.rs"]
mod generate;

/// A history as Jepsen records it of a store whose reads may be stale: a compare-and-set register used by
/// five processes some 85 times, with a quarter of the operations of unknown end. Three of four are made
/// impossible, like the published ones, by reads that see something else.
fn jepsen_like(seed: u64) -> History<Register> {
    let model = Register::with_cas();
    let shape = Shape { seed, operations: 85, processes: 5, indeterminate: 0.25 };
    let mut history = generate(&model, &shape);
    let random = &mut Seed(seed).stream("stale reads");
    let possible = |history: &History<Register>| {
        matches!(search(&model, history, &Budget::unlimited()), SearchOutcome::Order(_))
    };
    while !seed.is_multiple_of(4) && possible(&history) {
        let at = random.random_range(0..history.len());
        if history.list[at].op == RegisterOp::Read && history.list[at].certain() {
            history.list[at].ret = Some(RegisterRet::Value(random.random_range(1..=5)));
        }
    }
    history
}

fn shape(operations: usize, processes: u32, indeterminate: f64) -> Shape {
    Shape { seed: 7, operations, processes, indeterminate }
}

fn fast_path() {
    fn one<M: FastPath + Behaviour>(name: &str, model: &M) {
        let sizes = [(100_000, 20, 0.01), (1_000_000, 5, 0.0), (1_000_000, 20, 0.01), (1_000_000, 50, 0.05)];
        let large = [(10_000_000, 20, 0.01)];
        let with_large = std::env::var_os("FENCEPOST_BENCH_LARGE").is_some();
        let large: &[_] = if with_large { &large } else { &[] };
        for &(operations, processes, indeterminate) in sizes.iter().chain(large) {
            let history = generate(model, &shape(operations, processes, indeterminate));
            let id =
                format!("fast path, {name}: {operations} operations, {processes} processes, {indeterminate}");
            measure(&id, || model.decide(black_box(&history), None));
        }
    }
    one("mutex", &Mutex);
    one("owner-mutex", &OwnerMutex);
    one("fenced-mutex", &FencedMutex);
    one("register", &Register::default());
}

fn general() {
    fn one<M: Behaviour>(name: &str, model: &M, shape: &Shape) {
        let history = generate(model, shape);
        measure(&format!("search, {name}"), || {
            let found = search(model, black_box(&history), &Budget::unlimited());
            assert!(matches!(found, SearchOutcome::Order(_)));
        });
    }
    let large = shape(10_000, 20, 0.01);
    one("mutex, 10000 operations", &Mutex, &large);
    one("register, 10000 operations", &Register::default(), &large);
    let histories: Vec<_> = (0..102).map(jepsen_like).collect();
    let valid = |history: &&_| {
        matches!(search(&Register::with_cas(), history, &Budget::unlimited()), SearchOutcome::Order(_))
    };
    let valid = histories.iter().filter(valid).count();
    measure(&format!("search, cas-register, 102 histories of 85 operations, {valid} valid"), || {
        for history in &histories {
            black_box(search(&Register::with_cas(), black_box(history), &Budget::unlimited()));
        }
    });
}

/// What watching a run costs, with an acquire and a release in turn on each of 20 processes.
fn watch() {
    let history = generate(&FencedMutex, &shape(100_000, 20, 0.0));
    let events: Vec<Event> = (0..)
        .zip(&history.order)
        .map(|(index, &event)| {
            let (at, ends) = ((event >> 1) as usize, event & 1 == 1);
            let operation = &history.list[at];
            let acquire = matches!(operation.op, fencepost_checker::models::LockOp::Acquire(_));
            let token = operation.ret.flatten().filter(|_| ends);
            Event {
                index,
                time: index,
                process: Process::Client(history.sources[at].process),
                kind: if ends { Kind::Ok } else { Kind::Invoke },
                f: if acquire { "acquire" } else { "release" }.into(),
                key: Some("a".into()),
                value: token.map_or(Value::Null, |token| json!({"token": token})).into(),
                error: None,
            }
        })
        .collect();
    measure("watch, 200000 events", || {
        let mut watch = Watch::new();
        events.iter().for_each(|event| watch.push(event));
        assert_eq!(watch.violations(), 0);
    });
}

/// What all checkers of a run cost, whose releases say what they removed: twice the sections, twice the time.
fn whole_run() {
    for (kind, sections) in
        [("mutex", 50_000), ("mutex", 100_000), ("reentrant", 50_000), ("reentrant", 100_000)]
    {
        let mut events: Vec<Event> = Vec::new();
        let mut push = |process, kind, f: &'static str, key: Option<&'static str>, value: Value| {
            let index = events.len() as u64;
            let (f, key, value) = (f.into(), key.map(Into::into), value.into());
            events.push(Event { index, time: index * 100_000, process, kind, f, key, value, error: None });
        };
        let lock = json!({"name": "x", "lease": "ttl", "kind": kind});
        push(Process::Nemesis, Kind::Info, "lock", None, lock);
        push(Process::Nemesis, Kind::Info, "servers", None, json!(["n1"]));
        for section in 0..sections {
            let process = Process::Client(section % 20);
            push(process, Kind::Invoke, "acquire", Some("a"), json!({"ttl_ms": 2000}));
            push(process, Kind::Ok, "acquire", Some("a"), Value::Null);
            push(process, Kind::Invoke, "release", Some("a"), Value::Null);
            push(process, Kind::Ok, "release", Some("a"), json!({"believed": true, "removed": true}));
        }
        measure(&format!("a run of {sections} sections, {kind}"), || check_run(black_box(&events)));
    }
}

fn by_key() {
    let part = |key: u64| {
        let shape = Shape { seed: key, ..shape(40_000, 10, 0.01) };
        KeyHistory { key: Some(key.to_string()), model: Mutex, history: generate(&Mutex, &shape) }
    };
    let parts: Vec<KeyHistory<Mutex>> = (0..50).map(part).collect();
    let options = CheckOptions {
        algorithm: Algorithm::Auto,
        budget: Budget::unlimited(),
        evidence: false,
        witness: false,
    };
    for threads in [1, 2] {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started");
        measure(&format!("50 keys of 40000 operations, {threads} threads"), || {
            pool.install(|| judge(&parts, &options))
        });
    }
}

/// From a violation in the middle of a million operations to its core.
fn core() {
    fn one<M: Codec + Behaviour>(name: &str, model: &M) {
        let mut history = generate(model, &shape(1_000_000, 20, 0.0));
        // One process's completion comes half a window too early, until that breaks the history.
        let mut answer = AlgorithmAnswer::Linearizable;
        for place in history.order.len() / 2.. {
            let (early, late) = (history.order[place], history.order[place + 1]);
            if early & 1 == 0 && late & 1 == 1 && early >> 1 != late >> 1 {
                history.order.swap(place, place + 1);
                history.list[(early >> 1) as usize].invoke = place as u32 + 1;
                history.list[(late >> 1) as usize].complete = place as u32;
                answer = decide(model, &history, Algorithm::Auto, &Budget::unlimited(), None);
                if answer != AlgorithmAnswer::Linearizable {
                    break;
                }
            }
        }
        let AlgorithmAnswer::Impossible(conflict) = answer else { panic!("{name} is not broken") };
        measure(&format!("explain a violation in 1000000 operations, {name}"), || {
            let answer = decide(model, &history, Algorithm::Auto, &Budget::unlimited(), None);
            assert!(matches!(answer, AlgorithmAnswer::Impossible(_)));
            explain(model, &history, &conflict, &Budget::unlimited())
        });
    }
    one("mutex", &Mutex);
    one("owner-mutex", &OwnerMutex);
    one("register", &Register::default());
}

fn main() {
    fast_path();
    general();
    by_key();
    core();
    watch();
    whole_run();
}
