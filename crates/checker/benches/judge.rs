//! How fast histories are judged. The table in the README is made from this.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fencepost_checker::generate::{Behaviour, Shape, generate};
use fencepost_checker::models::{Counter, FencedMutex, FetchAdd, Mutex, OwnerMutex, Register, Vocabulary};
use fencepost_checker::read::Part;
use fencepost_checker::{Algorithm, Answer, Budget, Found, Special, Wanted, decide, explain, judge, search};
use std::hint::black_box;
use std::time::Duration;

fn shape(operations: usize, processes: u32, indeterminate: f64) -> Shape {
    Shape { seed: 7, operations, processes, indeterminate }
}

/// The special algorithms, at growing sizes.
fn special(criterion: &mut Criterion) {
    fn one<M: Special + Behaviour>(criterion: &mut Criterion, name: &str, model: &M) {
        let mut group = criterion.benchmark_group(format!("special/{name}"));
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
    one(criterion, "counter", &Counter);
    one(criterion, "fetch-add", &FetchAdd);
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
                assert!(matches!(found, Found::Order(_)));
            });
        });
    }
    let large = shape(10_000, 20, 0.01);
    one(criterion, "mutex, 10000 operations", &Mutex, &large);
    one(criterion, "register, 10000 operations", &Register::default(), &large);
    one(criterion, "counter, 10000 operations", &Counter, &large);
    one(criterion, "cas-register, 85 operations", &Register::with_cas(), &shape(85, 5, 0.05));
}

/// Keys are judged on all cores.
fn by_key(criterion: &mut Criterion) {
    let part = |key: u64| {
        let shape = Shape { seed: key, ..shape(40_000, 10, 0.01) };
        Part { key: Some(key.to_string()), model: Mutex, history: generate(&Mutex, &shape) }
    };
    let parts: Vec<Part<Mutex>> = (0..50).map(part).collect();
    let wanted =
        Wanted { algorithm: Algorithm::Auto, budget: Budget::unlimited(), evidence: false, witness: false };
    let mut group = criterion.benchmark_group("50 keys of 40000 operations");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for threads in [1, 2] {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started");
        group.bench_function(BenchmarkId::from_parameter(format!("{threads} threads")), |bencher| {
            bencher.iter(|| pool.install(|| black_box(judge(&parts, &wanted))));
        });
    }
}

/// From a violation in the middle of a million operations to its core.
fn core(criterion: &mut Criterion) {
    fn one<M: Vocabulary + Behaviour>(criterion: &mut Criterion, name: &str, model: &M) {
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
    one(criterion, "owner-mutex", &OwnerMutex);
    one(criterion, "fetch-add", &FetchAdd);
}

criterion_group!(benches, special, general, by_key, core);
criterion_main!(benches);
