//! An anonymous mutex: acquired only when free, released only when held, by any process.
//!
//! # The algorithm
//! Be lazy: an operation takes effect at its completion. If the state does not allow it then (an acquire
//! while held, a release while free), exactly one operation of the other kind has to take effect before it.
//! All of a kind do the same to the state, so take the invoked one that must complete earliest, and an
//! indeterminate one only if there is no other.
//!
//! *Exact.* Laziness loses nothing: whatever could take effect now can as well later, until its own
//! completion. Earliest deadline first loses nothing: if an order uses y here and x, which has the earlier
//! deadline, later, exchange them. x was invoked already, so it may stand here; y stands where x stood,
//! before x's completion and so before its own. An indeterminate operation has no deadline and is the last
//! choice. So where this finds no operation to take, none exists in any order.
//!
//! O(n) memory and, for as many open operations at a time as there are processes, O(n) time.
//!
//! # The core of a violation
//! Between the invocation at which a window begins and the completion at which it ends, let a acquires lie
//! wholly inside, and let r releases be open at some moment of it. They alternate in any order: a ≤ r + 1.
//! (They can change places; and as the mutex starts free, a window that begins with the history has at most
//! as many releases as acquires.) The shortest window that breaks this, ending at the operation that got
//! stuck, is the core: nothing outside it could have helped.
//!
//! It can be large, and no smaller one may exist: acquires that wait for long may each have had the mutex at
//! any moment of that, so only counting shows one too many. People then look at the operation that got stuck,
//! the one of its kind before it, and what was under way in between.

use super::pending::PendingOperations;
use super::{Codec, EventRefusal, refuse_others_beside};
use crate::model::{Conflict, Decision, FastPath, History, Model};

/// An anonymous mutex.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MutexOp {
    Acquire,
    Release,
}

impl Model for Mutex {
    type State = bool;
    type Op = MutexOp;
    type Ret = ();

    fn start(&self) -> bool {
        false
    }

    fn step(&self, held: &bool, op: &MutexOp, _ret: Option<&()>) -> Option<bool> {
        match op {
            MutexOp::Acquire => (!held).then_some(true),
            MutexOp::Release => held.then_some(false),
        }
    }

    fn starts(&self, _part: &History<Self>) -> Vec<bool> {
        vec![false, true]
    }

    fn show(&self, op: &MutexOp, _ret: Option<&()>) -> String {
        match op {
            MutexOp::Acquire => "acquire".to_owned(),
            MutexOp::Release => "release".to_owned(),
        }
    }

    fn show_state(&self, held: &bool) -> String {
        if *held { "held".to_owned() } else { "free".to_owned() }
    }
}

impl Codec for Mutex {
    fn invoke(&mut self, _process: u64, f: &str, value: &str) -> Result<MutexOp, EventRefusal> {
        match f {
            "acquire" => refuse_others_beside(value).map(|()| MutexOp::Acquire),
            "release" => Ok(MutexOp::Release),
            _ => Err(EventRefusal::UnknownOperation("acquire and release")),
        }
    }

    fn complete(&mut self, _op: &MutexOp, _value: &str) -> Result<(), EventRefusal> {
        Ok(())
    }
}

impl FastPath for Mutex {
    fn decide(&self, history: &History<Self>, mut order: Option<&mut Vec<u32>>) -> Decision {
        let mut acquires = PendingOperations::default();
        let mut releases = PendingOperations::default();
        let mut held = false;
        let mut put = |at: u32| order.as_deref_mut().into_iter().for_each(|order| order.push(at));
        for (place, &event) in history.order.iter().enumerate() {
            let at = event >> 1;
            let operation = &history.list[at as usize];
            let acquire = operation.op == MutexOp::Acquire;
            let (same, other) =
                if acquire { (&mut acquires, &mut releases) } else { (&mut releases, &mut acquires) };
            if event & 1 == 0 {
                same.push(at, operation.complete);
                continue;
            }
            if !same.take_completing(place as u32) {
                continue;
            }
            if held == acquire {
                match other.take() {
                    Some(helper) => put(helper),
                    None => return Decision::Impossible(conflict(history, at)),
                }
            }
            put(at);
            held = acquire;
        }
        Decision::Linearizable
    }
}

/// The shortest window that ends with the operation and has too few of the other kind.
fn conflict(history: &History<Mutex>, stuck: u32) -> Conflict {
    let end = history.list[stuck as usize].complete;
    let kind = history.list[stuck as usize].op;
    let before = &history.order[..=end as usize];
    let mut inside = Vec::new();
    // Those of the other kind that are open at the end; an indeterminate one stays open for ever.
    let open = |&event: &u32| {
        let operation = &history.list[(event >> 1) as usize];
        event & 1 == 0 && operation.op != kind && operation.complete > end
    };
    let mut across: Vec<u32> = before.iter().filter(|event| open(event)).map(|event| event >> 1).collect();
    let mut begins_with_history = true;
    for &event in before.iter().rev() {
        let operation = &history.list[(event >> 1) as usize];
        if event & 1 == 1 && operation.op != kind {
            across.push(event >> 1);
        } else if event & 1 == 0 && operation.op == kind && operation.complete <= end {
            inside.push(event >> 1);
            if inside.len() >= across.len() + 2 {
                begins_with_history = false;
                break;
            }
        }
    }
    let mut sentence = sentence(history, stuck, &inside, across.len(), begins_with_history);
    if inside.len() + across.len() <= LARGE {
        inside.extend(across);
        return Conflict::new(inside, stuck, sentence);
    }
    let unseen = across.iter().filter(|&&at| !history.list[at as usize].certain()).count();
    let before = right_before(history, stuck);
    sentence += &nearby(history, stuck, &before, unseen);
    inside.extend(across);
    let focus = before.last.into_iter().chain(before.between.into_iter().take(LARGE)).collect();
    Conflict::new(inside, stuck, sentence).with_focus(focus)
}

const LARGE: usize = 12;

/// What came right before the operation that got stuck.
struct Before {
    /// The operation of its kind whose completion was the last before.
    last: Option<u32>,
    /// Certain operations of the other kind that were under way since.
    between: Vec<u32>,
}

fn right_before(history: &History<Mutex>, stuck: u32) -> Before {
    let end = history.list[stuck as usize].complete;
    let kind = history.list[stuck as usize].op;
    let op = |event: u32| history.list[(event >> 1) as usize].op;
    let earlier = history.order[..end as usize].iter().rev();
    let last = earlier.copied().find(|&event| event & 1 == 1 && op(event) == kind).map(|event| event >> 1);
    let since = last.map_or(0, |last| history.list[last as usize].complete);
    let between = (0..history.len() as u32).filter(|&at| {
        let operation = &history.list[at as usize];
        operation.op != kind && operation.certain() && operation.complete > since && operation.invoke < end
    });
    Before { last, between: between.collect() }
}

fn nearby(history: &History<Mutex>, stuck: u32, before: &Before, unseen: usize) -> String {
    let (verb, other) = match history.list[stuck as usize].op {
        MutexOp::Acquire => ("acquired", "release"),
        MutexOp::Release => ("released", "acquire"),
    };
    let counted = match unseen {
        0 => String::new(),
        1 => format!(" (among them one {other} whose end was not observed)"),
        _ => format!(" (among them {unseen} {other}s whose end was not observed)"),
    };
    let Some(last) = before.last else { return counted };
    let (count, process) = (before.between.len(), history.process(last));
    let since = match count {
        0 => format!("no {other} under way"),
        1 => format!("one {other} under way"),
        _ => format!("{count} {other}s under way"),
    };
    format!(
        "{counted}. It shows at process {}: the last before it that {verb} was process {process}, by {}, with \
         {since} since then",
        history.process(stuck),
        history.completed(last),
    )
}

fn sentence(history: &History<Mutex>, stuck: u32, inside: &[u32], across: usize, from_start: bool) -> String {
    let (verb, noun, other) = match history.list[stuck as usize].op {
        MutexOp::Acquire => ("acquired", "acquires", "release"),
        MutexOp::Release => ("released", "releases", "acquire"),
    };
    let (process, count) = (history.process(stuck), inside.len());
    let first = inside.iter().copied().min_by_key(|&at| history.list[at as usize].invoke).unwrap_or(stuck);
    let (since, until) = (history.invoked(first), history.completed(stuck));
    let others = match across {
        0 => format!("no {other} was"),
        1 => format!("only one {other} was"),
        _ => format!("only {across} {other}s were"),
    };
    if from_start {
        return format!(
            "process {process} {verb} by {until}, and with it there were {count} {noun} since the beginning, when the \
             mutex was free; {others} under way in that time"
        );
    }
    if let ([_, one], 0) = (inside, across) {
        let earlier = if *one == stuck { inside[0] } else { *one };
        return format!(
            "process {process} {verb} by {until} after process {} had {verb} (from {} to {}), and {others} under way \
             in between",
            history.process(earlier),
            history.invoked(earlier),
            history.completed(earlier),
        );
    }
    format!("{count} {noun} began and ended between {since} and {until}, but {others} under way in that time")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, history, rejects};

    #[test]
    fn accepts_taking_turns() {
        accepts::<Mutex>("1( acquire) 1( release) 2( acquire) 2( release)");
        accepts::<Mutex>("");
        // Released by another; and overlapping in either order.
        accepts::<Mutex>("1( acquire) 2( release) 3( acquire)");
        accepts::<Mutex>("1( release 2( acquire 1) 2)");
    }

    #[test]
    fn rejects_two_at_once() {
        let conflict = rejects::<Mutex>("1( acquire) 2( acquire) 1( release)");
        assert_eq!(conflict.core, [0, 1]);
        assert_eq!(
            conflict.sentence,
            "process 2 acquired by event 3 after process 1 had acquired (from event 0 to event 1), and no release was \
             under way in between"
        );
        rejects::<Mutex>("1( release)");
        rejects::<Mutex>("1( acquire) 1( release) 2( release)");
        // One release cannot stand between three acquires.
        rejects::<Mutex>("1( acquire 2( acquire 3( acquire 4( release 1) 2) 3) 4)");
    }

    #[test]
    fn indeterminate_operations_may_have_happened_or_not() {
        accepts::<Mutex>("1( acquire) 2( release? 3( acquire)");
        accepts::<Mutex>("1( acquire? 2( acquire)");
        accepts::<Mutex>("1( acquire? 2( release) 3( acquire)");
        rejects::<Mutex>("1( acquire) 2( acquire) 3( release?");
        rejects::<Mutex>("1( acquire) 2( release? 3( acquire) 4( acquire)");
        // Even long after.
        accepts::<Mutex>("9( release? 1( acquire) 1( release) 2( acquire) 3( acquire)");
    }

    #[test]
    fn a_large_conflict_says_how_many_ends_were_not_observed() {
        // So many acquires at once, beside two releases fewer, of which these ended unseen.
        let sentence = |unseen: usize| {
            let begin = |name: &'static str, ending: &'static str| {
                move |process: usize| format!("{process}( {name}{ending} ")
            };
            let lost: String = (0..unseen).map(begin("release", "?")).collect();
            let seen = unseen..LARGE - 2;
            let begun: String = seen.clone().map(begin("release", "")).collect();
            let acquires = LARGE..2 * LARGE;
            let acquired: String = acquires.clone().map(begin("acquire", "")).collect();
            let ended: String = seen.chain(acquires).map(|process| format!("{process}) ")).collect();
            let mut model = Mutex;
            let history = history(&mut model, &(lost + &begun + &acquired + &ended));
            match model.decide(&history, None) {
                Decision::Impossible(conflict) => conflict.sentence,
                _ => String::new(),
            }
        };
        assert!(!sentence(0).contains("among them"));
        assert!(sentence(1).contains(" (among them one release whose end was not observed). It shows"));
        assert!(sentence(2).contains(" (among them 2 releases whose end was not observed). It shows"));
    }

    #[test]
    fn what_failed_did_not_happen() {
        accepts::<Mutex>("1( acquire) 2( acquire! 1( release)");
        rejects::<Mutex>("1( acquire) 2( release! 3( acquire)");
    }
}
