use super::*;
use crate::models::{FencedMutex, Mutex, OwnerMutex, Register};

fn parts<M: Codec + Clone>(model: M, text: &str) -> Result<Vec<KeyHistory<M>>, String> {
    read(&model, &mut JsonLines::new(text.as_bytes()), &ReadOptions::default())
        .map_err(|error| error.to_string())
}

const TURNS: &str = r#"
    {"index":0,"time":5,"process":1,"type":"invoke","f":"acquire","key":"a","value":{"ttl_ms":3}}
    {"index":1,"time":6,"process":"nemesis","type":"info","f":"phase","value":"main"}
    {"index":2,"time":7,"process":1,"type":"ok","f":"acquire","key":"a","value":{"token":3}}
    {"index":3,"time":8,"process":1,"type":"info","f":"lost","key":"a"}
    {"index":4,"time":9,"process":2,"type":"invoke","f":"acquire","key":"b","value":null}"#;

#[test]
fn a_set_is_acquired_and_released_by_each_of_its_names() {
    let text = r#"
        {"process":1,"type":"invoke","f":"acquire","key":"a","value":{"ttl_ms":3,"also":["b","a","b"]}}
        {"process":1,"type":"ok","f":"acquire","key":"a","value":{}}
        {"process":2,"type":"invoke","f":"acquire","key":"b","value":{"also":["c"]}}
        {"process":2,"type":"ok","f":"acquire","key":"b","value":{}}
        {"process":1,"type":"invoke","f":"release","key":"a","value":{"also":["b"]}}
        {"process":1,"type":"fail","f":"release","key":"a","value":{},"error":"timeout: x"}"#;
    let options = crate::CheckOptions {
        algorithm: crate::Algorithm::Auto,
        budget: crate::Budget::unlimited(),
        evidence: false,
        witness: false,
    };
    let parts = parts(OwnerMutex, text).unwrap();
    let judged = |part: &KeyHistory<OwnerMutex>| (part.key.clone().unwrap(), part.history.list.len());
    let judged: Vec<_> = parts.iter().map(judged).collect();
    let count = |key: &str, operations| (key.to_owned(), operations);
    assert_eq!(judged, [count("a", 1), count("b", 2), count("c", 1)], "what failed is none");
    let outcomes: Vec<_> =
        crate::judge(&parts, &options).into_iter().map(|verdict| verdict.outcome).collect();
    assert_eq!(outcomes, [crate::Outcome::Valid, crate::Outcome::Violation, crate::Outcome::Valid]);
}

#[test]
fn separates_keys_and_skips_notices_and_faults() {
    let parts = parts(FencedMutex, TURNS).unwrap();
    assert_eq!(parts.iter().map(|part| part.key.as_deref()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    let (a, b) = (&parts[0].history, &parts[1].history);
    assert_eq!((a.list[0].ret, b.list[0].ret), (Some(Some(3)), None));
    assert_eq!((a.sources[0].complete_index, a.sources[0].complete_ns), (2, 7));
}

#[test]
fn refuses_what_is_no_history_and_says_where() {
    let refused =
        |old: &str, new: &str| parts(FencedMutex, &TURNS.replacen(old, new, 1)).err().unwrap_or_default();
    assert_eq!(
        refused(r#""f":"acquire""#, r#""f":"grab""#),
        "line 2: the model knows acquire and release, not \"grab\" (--rename grab=NAME if it is one of these; \
         --skip grab leaves it out, which is right only for an operation that does not change the object)"
    );
    assert_eq!(
        refused(r#"{"token":3}"#, "7"),
        "line 4: \"acquire\" wants {\"token\": n} with a whole number n, and the value is 7"
    );
    assert!(refused(r#""process":2"#, r#""process":-2"#).starts_with("line 6: "));
    assert!(refused(r#""process":1,"type":"ok""#, r#""process":4,"type":"ok""#).contains("never invoked"));
    assert!(refused(r#""process":1,"type":"ok""#, r#""process":1,"type":"invoke""#).contains("already has"));
    assert!(
        refused(r#""ok","f":"acquire""#, r#""ok","f":"release""#)
            .contains("invoked \"acquire\" and completes")
    );
    assert!(
        refused(r#""f":"acquire","key":"a","value":{"token"#, r#""f":"acquire","key":"z","value":{"token"#)
            .contains("another key")
    );
    assert!(refused(r#""type":"ok""#, r#""type":"done""#).starts_with("line 4: "));
    assert!(refused("null}", "null").starts_with("line 6: "));
}

#[test]
fn models_of_one_holder_refuse_the_shared_mode() {
    let acquire =
        |mode: &str| format!(r#"{{"process":1,"type":"invoke","f":"acquire","value":{{"mode":"{mode}"}}}}"#);
    let (shared, exclusive) = (acquire("shared"), acquire("exclusive"));
    let error = |refused: Result<(), String>| refused.err().unwrap_or_default();
    let refused = [
        error(parts(Mutex, &shared).map(drop)),
        error(parts(OwnerMutex, &shared).map(drop)),
        error(parts(FencedMutex, &shared).map(drop)),
    ];
    let sentence = "line 1: the model knows no mode, and \"acquire\" asks for {\"mode\":\"shared\"}: use --model shared-lock, which \
                    knows both modes";
    assert_eq!(refused, [sentence; 3]);
    assert_eq!(error(parts(OwnerMutex, &exclusive).map(drop)), "");
}

#[test]
fn a_line_without_an_end_is_refused() {
    let endless = io::BufReader::new(io::repeat(b'x'));
    let Err(error) = read(&Register::default(), &mut JsonLines::new(endless), &ReadOptions::default()) else {
        panic!("a line without an end was read")
    };
    assert!(error.to_string().starts_with("line 1: the line is longer than 64 MiB"), "{error}");
}

#[test]
fn reads_values_of_independent_keys_and_skips_on_demand() {
    let text = r#"{"process":1,"type":"invoke","f":"write","value":["x",3]}
        {"process":1,"type":"ok","f":"write","value":["x",3]}
        {"process":1,"type":"invoke","f":"noise","value":3}"#;
    let reading = ReadOptions { independent: true, skip: vec!["noise".to_owned()], ..Default::default() };
    let parts = read(&Register::default(), &mut JsonLines::new(text.as_bytes()), &reading).unwrap();
    assert_eq!(parts[0].key.as_deref(), Some("\"x\""));
    assert_eq!(parts[0].history.len(), 1);
    let reading = ReadOptions { skip: vec![], ..reading };
    assert!(read(&Register::default(), &mut JsonLines::new(text.as_bytes()), &reading).is_err());
}

#[test]
fn an_info_closes_the_operation_and_not_the_process() {
    let text = r#"{"process":1,"type":"invoke","f":"acquire"}
        {"process":1,"type":"info","f":"acquire","error":"timeout"}
        {"process":1,"type":"invoke","f":"release"}
        {"process":1,"type":"fail","f":"release"}"#;
    let parts = parts(Mutex, text).unwrap();
    assert_eq!((parts[0].history.len(), parts[0].history.order.len()), (1, 1));
}

#[test]
fn a_no_of_a_library_is_no_certain_no() {
    let with = |error: &str| {
        let text = r#"{"process":1,"type":"invoke","f":"acquire"}
            {"process":1,"type":"fail","f":"acquire","error":"ERROR"}"#;
        parts(Mutex, &text.replace("ERROR", error)).unwrap()[0].history.len()
    };
    assert_eq!((with("taken: by another"), with("refused-by-library: no")), (0, 1));
}
