//! Requests to a storage, one after the other and at the same time.

use super::*;
use crate::guards::find_guard;
use async_trait::async_trait;
use serde_json::json;

fn storage(guard: &str) -> Storage {
    Storage::new(find_guard(guard).expect("there"), Duration::ZERO, None)
}

/// The value that the storage answers, or its error.
async fn ask(storage: &Storage, line: &str) -> Result<Value, String> {
    let request = line.replacen('{', r#"{"id":1,"key":"a","#, 1);
    let answer = storage.answer(serde_json::from_str(&request).expect("a request")).await;
    answer.fail.map_or(Ok(answer.ok.unwrap_or_default()), |error| Err(error.to_string()))
}

#[tokio::test]
async fn counters_begin_at_zero_and_keep_what_is_written() {
    let storage = storage("none");
    assert_eq!(ask(&storage, r#"{"f":"read"}"#).await, Ok(0.into()));
    assert_eq!(ask(&storage, r#"{"f":"write","value":8}"#).await, Ok(8.into()));
    assert_eq!(ask(&storage, r#"{"f":"read"}"#).await, Ok(8.into()));
    assert_eq!(ask(&storage, r#"{"f":"write","value":[3,5]}"#).await, Ok(2.into()), "a list: its length");
    assert_eq!(ask(&storage, r#"{"f":"read"}"#).await, Ok(json!([3, 5])));
}

#[tokio::test]
async fn the_guard_decides() {
    let storage = storage("token");
    assert_eq!(ask(&storage, r#"{"f":"write","value":8,"token":35}"#).await, Ok(8.into()));
    let stale = ask(&storage, r#"{"f":"write","value":9,"token":33}"#).await;
    assert_eq!(stale, Err("rejected: stale-token: 33 < 35".to_owned()));
    assert_eq!(ask(&storage, r#"{"f":"read"}"#).await, Ok(8.into()), "nothing was written");
}

#[tokio::test]
async fn nonsense_is_rejected() {
    let storage = storage("none");
    assert!(ask(&storage, r#"{"f":"write"}"#).await.is_err());
    assert!(ask(&storage, r#"{"f":"write","value":"x"}"#).await.is_err());
    assert!(serde_json::from_str::<Request>(r#"{"id":1,"f":"drop"}"#).is_err());
    assert!(
        ask(&storage, r#"{"f":"mark","unique":"x"}"#)
            .await
            .is_err_and(|why| why.starts_with("rejected: no-marks"))
    );
}

/// A write that was checked first, and one with a greater token that comes right after it.
async fn two_at_once(
    guard: &str,
    first: &str,
    second: &str,
) -> (Result<Value, String>, Result<Value, String>, Value) {
    let storage = Storage::new(find_guard(guard).expect("there"), Duration::from_millis(50), None);
    if find_guard(guard).is_some_and(Guard::marks_first) {
        ask(&storage, &first.replace("write", "mark")).await.expect("marked");
    }
    let later = async {
        if find_guard(guard).is_some_and(Guard::marks_first) {
            ask(&storage, &second.replace("write", "mark")).await.expect("marked");
        }
        ask(&storage, second).await
    };
    let (one, two) = tokio::join!(ask(&storage, first), later);
    let left = ask(&storage, r#"{"f":"read"}"#).await.expect("a value");
    (one, two, left)
}

#[tokio::test(start_paused = true)]
async fn racy_guards_let_the_earlier_holder_overwrite_the_later_one() {
    let tokens = [r#"{"f":"write","value":1,"token":33}"#, r#"{"f":"write","value":2,"token":34}"#];
    let uniques = [r#"{"f":"write","value":1,"unique":"x"}"#, r#"{"f":"write","value":2,"unique":"y"}"#];
    for (racy, exact, [first, second]) in
        [("token-racy", "token", tokens), ("unique-racy", "unique", uniques)]
    {
        let (one, two, left) = two_at_once(racy, first, second).await;
        assert_eq!(
            (one, two, left),
            (Ok(1.into()), Ok(2.into()), 1.into()),
            "{racy}: checked first, written last"
        );
        let (one, two, left) = two_at_once(exact, first, second).await;
        assert_eq!(
            (one, two, left),
            (Ok(1.into()), Ok(2.into()), 2.into()),
            "{exact}: in the order of the checks"
        );
    }
}

/// A lock service by which only this sequencer is valid.
struct Only(&'static str);

#[async_trait]
impl Sequencers for Only {
    async fn valid(&self, sequencer: &str) -> std::io::Result<bool> {
        if sequencer == "down" {
            Err(std::io::Error::other("no server answers"))
        } else {
            Ok(sequencer == self.0)
        }
    }
}

#[tokio::test]
async fn the_lock_service_is_asked_for_sequencers() {
    let guard = find_guard("sequencer").expect("there");
    let informed = Storage::new(guard, Duration::ZERO, Some(Box::new(Only("a:exclusive:33"))));
    let write = |sequencer: &str| format!(r#"{{"f":"write","value":1,"sequencer":"{sequencer}"}}"#);
    assert_eq!(ask(&informed, &write("a:exclusive:33")).await, Ok(1.into()));
    assert!(
        ask(&informed, &write("a:exclusive:32"))
            .await
            .is_err_and(|why| why.starts_with("rejected: stale-sequencer"))
    );
    assert!(
        ask(&informed, &write("down")).await.is_err_and(|why| why.starts_with("rejected: no-lock-service"))
    );
    assert!(
        ask(&informed, r#"{"f":"write","value":1}"#)
            .await
            .is_err_and(|why| why.starts_with("rejected: no-sequencer"))
    );
    let uninformed = Storage::new(guard, Duration::ZERO, None);
    assert!(
        ask(&uninformed, &write("a:exclusive:33"))
            .await
            .is_err_and(|why| why.starts_with("rejected: no-lock-service"))
    );
}

/// A guard whose code no other part of Fencepost knows.
const ODD_ONLY: Guard = Guard {
    name: "odd-only",
    about: "accepts odd values",
    source: "this test",
    needs: Need::Nothing,
    replicas: 1,
    in_two_steps: false,
    admits: |_, write| match write.value.as_i64() {
        Some(value) if value % 2 == 1 => Ok(()),
        _ => Err(Rejection::new("not-odd", &write.value)),
    },
    on_read: |_, _| {},
    marks: None,
};

#[tokio::test]
async fn a_rejection_is_recognised_whatever_the_guards_code() {
    let storage = Storage::new(&ODD_ONLY, Duration::ZERO, None);
    assert_eq!(ask(&storage, r#"{"f":"write","value":3}"#).await, Ok(3.into()));
    let request = r#"{"id":1,"f":"write","key":"a","value":4}"#;
    let answer = storage.answer(serde_json::from_str(request).expect("a request")).await;
    // As a client gets it.
    let answer: Response =
        serde_json::from_str(&serde_json::to_string(&answer).expect("JSON")).expect("an answer");
    let error = answer.fail.expect("rejected");
    assert!(error.is_rejected());
    assert_eq!(error.detail(), "not-odd: 4");
}
