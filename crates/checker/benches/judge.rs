//! How fast histories are judged. The table in the README is made from this.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fencepost_checker::models::{Codec, FencedMutex, Mutex, OwnerMutex, Register, RegisterOp, RegisterRet};
use fencepost_checker::read::KeyHistory;
use fencepost_checker::{
    Algorithm, Answer, Budget, CheckOptions, FastPath, History, SearchOutcome, Watch, decide, explain, judge,
    search,
};
use fencepost_history::{Event, Kind, Process, Seed};
use generate::{Behaviour, Shape, generate};
use rand::RngExt;
use std::hint::black_box;
use std::time::Duration;

#[path = "../tests/generate/mod.rs"]
mod generate;

/// A history as Jepsen records it of a store whose reads may be stale: a compare-and-set register used by
/// five processes some 85 times, with a quarter of the operations of unknown end. Three of four are
/// impossible, as of those that were published: reads are made to have seen something else until no order is
/// left.
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

/// The fast paths, at growing sizes.
fn fast_path(criterion: &mut Criterion) {
    fn one<M: FastPath + Behaviour>(criterion: &mut Criterion, name: &str, model: &M) {
        let mut group = criterion.benchmark_group(format!("fast-path/{name}"));
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1));
        let sizes = [(100_000, 20, 0.01), (1_000_000, 5, 0.0), (1_000_000, 20, 0.01), (1_000_000, 50, 0.05)];
        let large = [(10_000_000, 20, 0.01)];
        let with_large = std::env::var_os("FENCEPOST_BENCH_LARGE").is_some();
        let large: &[_] = if with_large { &large } else { &[] };
        for &(operations, processes, indeterminate) in sizes.iter().chain(large) {
            let history = generate(model, &shape(operations, processes, indeterminate));
            let id = format!("{operations} operations, {processes} processes, {indeterminate}");
            group.bench_function(BenchmarkId::from_parameter(id), |bencher| {
                bencher.iter(|| black_box(model.decide(black_box(&history), None)));
            });
        }
    }
    one(criterion, "mutex", &Mutex);
    one(criterion, "owner-mutex", &OwnerMutex);
    one(criterion, "fenced-mutex", &FencedMutex);
    one(criterion, "register", &Register::default());
}

/// The general search.
fn general(criterion: &mut Criterion) {
    fn one<M: Behaviour>(criterion: &mut Criterion, name: &str, model: &M, shape: &Shape) {
        let history = generate(model, shape);
        let mut group = criterion.benchmark_group("search");
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                let found = search(model, black_box(&history), &Budget::unlimited());
                assert!(matches!(found, SearchOutcome::Order(_)));
            });
        });
    }
    let large = shape(10_000, 20, 0.01);
    one(criterion, "mutex, 10000 operations", &Mutex, &large);
    one(criterion, "register, 10000 operations", &Register::default(), &large);
    let histories: Vec<_> = (0..102).map(jepsen_like).collect();
    let valid = |history: &&_| {
        matches!(search(&Register::with_cas(), history, &Budget::unlimited()), SearchOutcome::Order(_))
    };
    let valid = histories.iter().filter(valid).count();
    let id = format!("cas-register, 102 histories of 85 operations, {valid} valid");
    criterion.benchmark_group("search").bench_function(BenchmarkId::from_parameter(id), |bencher| {
        bencher.iter(|| {
            for history in &histories {
                black_box(search(&Register::with_cas(), black_box(history), &Budget::unlimited()));
            }
        });
    });
}

/// What watching a run costs, with an acquire and a release in turn on each of 20 processes.
fn watch(criterion: &mut Criterion) {
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
                value: token
                    .map_or(serde_json::Value::Null, |token| serde_json::json!({"token": token}))
                    .into(),
                error: None,
            }
        })
        .collect();
    criterion.benchmark_group("watch").bench_function("200000 events", |bencher| {
        bencher.iter(|| {
            let mut watch = Watch::new();
            events.iter().for_each(|event| watch.push(event));
            assert_eq!(watch.violations(), 0);
        });
    });
}

/// Keys are judged on all cores.
fn by_key(criterion: &mut Criterion) {
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
    let mut group = criterion.benchmark_group("50 keys of 40000 operations");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for threads in [1, 2] {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started");
        group.bench_function(BenchmarkId::from_parameter(format!("{threads} threads")), |bencher| {
            bencher.iter(|| pool.install(|| black_box(judge(&parts, &options))));
        });
    }
}

/// From a violation in the middle of a million operations to its core.
fn core(criterion: &mut Criterion) {
    fn one<M: Codec + Behaviour>(criterion: &mut Criterion, name: &str, model: &M) {
        let mut history = generate(model, &shape(1_000_000, 20, 0.0));
        // One process's completion comes half a window too early, until that breaks the history.
        let mut answer = Answer::Linearizable;
        for place in history.order.len() / 2.. {
            let (early, late) = (history.order[place], history.order[place + 1]);
            if early & 1 == 0 && late & 1 == 1 && early >> 1 != late >> 1 {
                history.order.swap(place, place + 1);
                history.list[(early >> 1) as usize].invoke = place as u32 + 1;
                history.list[(late >> 1) as usize].complete = place as u32;
                answer = decide(model, &history, Algorithm::Auto, &Budget::unlimited(), None);
                if answer != Answer::Linearizable {
                    break;
                }
            }
        }
        let Answer::Impossible(conflict) = answer else { panic!("{name} is not broken") };
        let mut group = criterion.benchmark_group("explain a violation in 1000000 operations");
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(100))
            .measurement_time(Duration::from_secs(1));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                let answer = decide(model, &history, Algorithm::Auto, &Budget::unlimited(), None);
                assert!(matches!(answer, Answer::Impossible(_)));
                black_box(explain(model, &history, &conflict, &Budget::unlimited()))
            });
        });
    }
    one(criterion, "mutex", &Mutex);
    one(criterion, "owner-mutex", &OwnerMutex);
    one(criterion, "register", &Register::default());
}

criterion_group!(benches, fast_path, general, by_key, core, watch);
criterion_main!(benches);
