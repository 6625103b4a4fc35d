//! The tables: every reply to every request × what comes out.

use super::super::api::{KeyValue, PutResponse, ResponseHeader, ResponseOp};
use super::*;
use crate::testing::ended;

fn why() -> OperationError {
    "unavailable: n1".into()
}

/// An answer, and whether an earlier attempt was not answered.
fn answered<T>(answer: T, doubt: bool) -> Result<AnsweredMember<T>, CallError> {
    Ok(AnsweredMember { answer, doubt })
}

/// Every way in which a call gives no answer, with its name.
fn unanswered<T>() -> [(&'static str, Result<AnsweredMember<T>, CallError>); 5] {
    let refused = |lease_not_found, doubt| Err(CallError::Refused { why: why(), lease_not_found, doubt });
    [
        ("refused", refused(false, false)),
        ("refused, doubt", refused(false, true)),
        ("no such lease", refused(true, false)),
        ("no such lease, doubt", refused(true, true)),
        ("unanswered", Err(CallError::Unanswered(why()))),
    ]
}

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision })
}

/// What a read found: keys with these create revisions.
fn found(revisions: &[i64]) -> RangeResponse {
    let kv = |revision: &i64| KeyValue {
        key: format!("k{revision}").into(),
        create_revision: *revision,
        ..KeyValue::default()
    };
    RangeResponse { header: header(50), kvs: revisions.iter().map(kv).collect() }
}

fn part(response: TransactionResponse) -> ResponseOp {
    ResponseOp { response: Some(response) }
}

fn put() -> ResponseOp {
    part(TransactionResponse::Put(PutResponse {}))
}

fn range(revisions: &[i64]) -> ResponseOp {
    part(TransactionResponse::Range(found(revisions)))
}

fn txn(responses: Vec<ResponseOp>) -> TxnResponse {
    TxnResponse { header: header(50), succeeded: true, responses }
}

/// A failure in short: its code, and what stands in the way of deleting the key.
fn failed(failure: &QueueFailure) -> String {
    let flag = |is: bool, word: &str| if is { format!(" {word}") } else { String::new() };
    let (gone, doubt) = (flag(failure.lease_is_gone, "lease-gone"), flag(failure.doubt, "doubt"));
    format!("{}{gone}{doubt}", failure.why.code_name())
}

#[test]
fn what_the_answer_to_the_first_transaction_means() {
    let after =
        |reply| after_put(reply).map_or_else(|failure| failed(&failure), |created| format!("{created:?}"));
    let created = |create_revision, doubt, waits| format!("{:?}", Created { create_revision, doubt, waits });
    for doubt in [false, true] {
        for (answer, expected) in [
            // Ours was put: the revision is that of the transaction. It is the oldest, or is not.
            (txn(vec![put(), range(&[50])]), created(50, doubt, false)),
            (txn(vec![put(), range(&[40])]), created(50, doubt, true)),
            // No writer is in the way of a reader, or only one that came later.
            (txn(vec![put(), range(&[])]), created(50, doubt, false)),
            (txn(vec![range(&[45]), range(&[48])]), created(45, doubt, false)),
            // Ours was there, from an attempt that was not answered, or since this process holds the lock.
            (txn(vec![range(&[45]), range(&[45])]), created(45, doubt, false)),
            (txn(vec![range(&[45]), range(&[40])]), created(45, doubt, true)),
        ] {
            assert_eq!(after(answered(answer, doubt)), expected);
        }
        let lacks = if doubt { "protocol doubt" } else { "protocol" };
        for parts in [vec![], vec![put()], vec![put(), put()], vec![range(&[]), range(&[40])]] {
            assert_eq!(after(answered(txn(parts), doubt)), lacks);
        }
        let headless = TxnResponse { header: None, ..txn(vec![put(), range(&[50])]) };
        assert_eq!(after(answered(headless, doubt)), lacks, "a put without a revision");
    }
    // Whatever the error: the key may be there.
    let expected = [
        "unavailable doubt",
        "unavailable doubt",
        "unavailable lease-gone doubt",
        "unavailable lease-gone doubt",
        "unavailable doubt",
    ];
    for ((name, reply), expected) in unanswered().into_iter().zip(expected) {
        assert_eq!(after(reply), expected, "{name}");
    }
}

#[test]
fn what_the_answers_to_a_waiter_mean() {
    for doubt in [false, true] {
        let own = Created { create_revision: 45, doubt, waits: true };
        let with = |text: &str| if doubt { format!("{text} doubt") } else { text.to_owned() };
        let look_for = |permits, reply| own.after_look(reply, permits).map_err(|failure| failed(&failure));
        let look = |reply| look_for(1, reply);
        let watch = WatchCreateRequest { key: b"k40".to_vec(), range_end: Vec::new(), start_revision: 51 };
        for doubt_of_read in [false, true] {
            assert_eq!(look(answered(found(&[40]), doubt_of_read)), Ok(Some(watch.clone())));
            assert_eq!(look(answered(found(&[]), doubt_of_read)), Ok(None), "ours is the oldest");
            assert_eq!(look_for(2, answered(found(&[40]), doubt_of_read)), Ok(None), "one permit is left");
            assert_eq!(look_for(2, answered(found(&[40, 38]), doubt_of_read)), Ok(Some(watch.clone())));
        }
        for (name, reply) in unanswered() {
            assert_eq!(look(reply), Err(with("unavailable")), "{name}: a read leaves nothing behind");
        }
        assert_eq!(failed(&own.still_waits()), with("taken"));

        let recheck = |reply| own.after_recheck(reply).map_err(|failure| failed(&failure));
        for doubt_of_read in [false, true] {
            assert_eq!(recheck(answered(found(&[45]), doubt_of_read)), Ok(()));
            let gone = Err(with("session-expired lease-gone"));
            assert_eq!(recheck(answered(found(&[]), doubt_of_read)), gone);
            assert_eq!(recheck(answered(found(&[49]), doubt_of_read)), gone, "a later key of the same name");
        }
        let [refused, doubted, no_lease, no_lease_doubted, silent] =
            unanswered().map(|(_, reply)| recheck(reply));
        assert_eq!(refused, Err(with("unavailable")));
        assert_eq!(no_lease, Err(with("unavailable lease-gone")));
        assert_eq!([doubted, silent], [(); 2].map(|()| Err("unavailable doubt".to_owned())));
        assert_eq!(no_lease_doubted, Err("unavailable lease-gone doubt".to_owned()));

        let keepalive = |in_time| own.after_keepalive(in_time).map_err(|failure| failed(&failure));
        assert_eq!((keepalive(true), keepalive(false)), (Ok(()), Err(with("timeout"))));
    }
}

#[test]
fn a_key_is_deleted_only_where_it_can_come_no_more() {
    for (doubt, lease_is_gone, session_is_lost, deletes) in [
        (false, false, false, true),
        (true, false, false, false),
        (false, true, false, false),
        (false, false, true, false),
        (true, true, true, false),
    ] {
        let failure = QueueFailure { why: why(), lease_is_gone, doubt };
        assert_eq!(deletes_key(&failure, session_is_lost), deletes, "{failure:?} {session_is_lost}");
    }
    let after = |reply| after_deletion::<(), ()>(reply, "taken: x".into());
    assert_eq!(after(answered((), false)), Attempted::Taken("taken: x".into()));
    // It may come late, and the session's next key has the same name.
    assert_eq!(after(answered((), true)), Attempted::Unclear("taken: x".into()));
    for (name, reply) in unanswered() {
        assert_eq!(after(reply), Attempted::Unclear("taken: x".into()), "{name}");
    }
}

#[test]
fn what_the_answer_to_chubbys_transaction_means() {
    for doubt in [false, true] {
        let granted = |generation| ChubbyAsked::Granted { generation, doubt };
        assert_eq!(after_chubby_txn(answered(txn(vec![put(), put()]), doubt)), granted(50));
        assert_eq!(after_chubby_txn(answered(txn(vec![range(&[45])]), doubt)), granted(45));
    }
    let taken = || txn(vec![range(&[])]);
    assert_eq!(after_chubby_txn(answered(taken(), false)), ChubbyAsked::Taken { watch_from: 51 });
    // The attempt that was not answered may still make our keys.
    let unclear = ChubbyAsked::Unclear(chubby_taken());
    assert_eq!(after_chubby_txn(answered(taken(), true)), unclear);
    for (name, reply) in unanswered() {
        assert_eq!(after_chubby_txn(reply), ChubbyAsked::Unclear(why()), "{name}");
    }
}

#[test]
fn what_the_answer_of_the_lock_service_means() {
    let answer = |header| LockResponse { header, key: b"a/7f".to_vec() };
    let after = |reply| after_lock_call(reply).map_err(|why| why.code_name().to_owned());
    assert_eq!(after(Some(Ok(answer(header(50))))), Ok((b"a/7f".to_vec(), 50)));
    assert_eq!(after(Some(Ok(answer(None)))), Err("protocol".to_owned()), "no token, so no lock");
    for status in [
        Status::not_found("etcdserver: requested lease not found"),
        Status::unavailable("x"),
        Status::unknown("x"),
    ] {
        assert_eq!(after(Some(Err(status))), Err("unavailable".to_owned()));
    }
    assert_eq!(after(None), Err("timeout".to_owned()));
}

#[test]
fn an_unclear_attempt_ends_with_its_leases_only() {
    let ends = |reply: Result<AnsweredMember<()>, CallError>| is_ended(&reply);
    assert_eq!([ends(answered((), false)), ends(answered((), true))], [true; 2]);
    assert_eq!(unanswered().map(|(_, reply)| ends(reply)), [false, false, true, true, false]);
    let after = |ended, time_is_left| {
        after_unclear(why(), ended, time_is_left).map(|completion| crate::testing::ended(&completion))
    };
    assert_eq!(
        [after(false, false), after(false, true)],
        [(); 2].map(|()| Some("info unavailable".to_owned()))
    );
    assert_eq!(after(true, false), Some("fail unavailable".to_owned()));
    assert_eq!(after(true, true), None, "another attempt");
}

#[test]
fn what_the_answer_to_a_release_means() {
    let after = |reply| after_release(reply).said();
    let answer = |succeeded, doubt| answered(TxnResponse { succeeded, ..txn(Vec::new()) }, doubt);
    assert_eq!(after(answer(true, false)), "ok null");
    // Which attempt deleted it does not matter: the key is compared with the one that was granted, so none
    // deletes a later.
    assert_eq!(after(answer(true, true)), "ok null");
    assert_eq!(after(answer(false, false)), "fail not-held");
    assert_eq!(after(answer(false, true)), "info timeout");
    let [refused, doubted, no_lease, no_lease_doubted, silent] = unanswered().map(|(_, reply)| after(reply));
    assert_eq!([refused, no_lease], ["fail unavailable, dropped"; 2]);
    assert_eq!([doubted, no_lease_doubted, silent], ["info unavailable, dropped"; 3]);

    assert_eq!(ended(&after_release_by_end(true)), "ok null");
    assert_eq!(ended(&after_release_by_end(false)), "info timeout");
}

#[test]
fn what_the_answer_to_an_unlock_means() {
    let after = |reply: Result<AnsweredMember<()>, CallError>| after_unlock(reply).said();
    assert_eq!(after(answered((), false)), "ok null");
    assert_eq!(after(answered((), true)), "ok null, dropped", "one may come late");
    for (name, reply) in unanswered() {
        assert_eq!(after(reply), "info unavailable, dropped", "{name}");
    }
}
