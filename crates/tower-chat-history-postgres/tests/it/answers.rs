//! Lost answers: nothing is stored twice, and a call is repeated only if that is safe.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, CompactOutcome, CompactionVersion, Derived, Expect, HistoryStore, Load, Prune, PruneTo, Seq, Truncate,
};

use crate::{
    proxy::Proxy,
    support::{append, compact, connect, conversation, database, exchange, say, single, texts, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        an_exchange_whose_acknowledgment_is_lost_is_stored_once,
        only_a_repetition_by_the_store_finds_its_own_append,
        an_append_repeated_after_a_deletion_begins_another_incarnation,
        every_other_call_is_repeated_after_a_lost_answer,
        a_truncation_that_may_be_committed_is_not_repeated,
        a_failed_commit_is_repeated_only_if_it_was_certainly_rolled_back,
    ]
}

async fn an_exchange_whose_acknowledgment_is_lost_is_stored_once() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let id = conversation("a");
    say(&store, &id, "one").await;
    proxy.lose(1);
    let appended = say(&store, &id, "two").await;
    assert!(proxy.has_lost() && !appended.duplicate, "the repetition found what this call had stored");
    assert_eq!(appended.seq, Seq::new(1));
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn only_a_repetition_by_the_store_finds_its_own_append() {
    let (url, proxy) = (database().await, Proxy::new());
    let (store, other) = (single(&proxy.url(&url)).await, single(&url).await);
    let id = conversation("a");
    let first = append("one");
    proxy.lose(2);
    let appended = store.append(&id, first.clone()).await.unwrap();
    assert!(proxy.has_lost() && !appended.duplicate, "the same for an append that creates the conversation");
    assert!(store.append(&id, first.clone()).await.unwrap().duplicate, "the same exchange by another call");
    assert!(other.append(&id, first).await.unwrap().duplicate);
    let compacting = append("two").compact(compact(CompactionVersion::NONE, 1));
    proxy.lose(1);
    let appended = store.append(&id, compacting).await.unwrap();
    assert!(proxy.has_lost() && !appended.duplicate);
    assert_eq!(appended.compaction, Some(CompactOutcome::Stored(CompactionVersion::new(1))));
    assert_eq!(appended.revision, window(&other, &id).await.revision);
    // The append changes the revision, so its expectation does not hold when it is repeated.
    let exactly = Append::new(Expect::Exactly(appended.revision), exchange("three"));
    proxy.lose(1);
    let appended = store.append(&id, exactly).await.unwrap();
    assert!(proxy.has_lost() && !appended.duplicate);
    assert_eq!(texts(&other, &id).await, ["one", "two", "three"]);
}

/// `append_1` creates both incarnations for the same call. Nevertheless, the second one is not the deleted
/// one.
async fn an_append_repeated_after_a_deletion_begins_another_incarnation() {
    let url = database().await;
    drop(single(&url).await);
    let client = connect(&url).await;
    let call = "select r_verdict, r_seq, r_incarnation::text from chat_history.append_1(null, 'test/a', 3, null, null, null, 0, \
                'f81d4fae-7dec-11d0-a765-00a0c91e6bf6', 'x', 0, null, 2, 10, 0, 'x', null, null, null, null, 0, 0, '', null)";
    let append = async || {
        let row = client.query_one(call, &[]).await.unwrap();
        assert_eq!((row.get::<_, i32>(0), row.get::<_, i64>(1)), (0, 0));
        row.get::<_, String>(2)
    };
    let first = append().await;
    assert_eq!(append().await, first, "the repetition finds what was stored");
    let deletion = format!("select chat_history.delete_1('test/a', '{first}')");
    client.batch_execute(&deletion).await.unwrap();
    assert_ne!(append().await, first);
}

async fn every_other_call_is_repeated_after_a_lost_answer() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let id = conversation("a");
    let first = say(&store, &id, "one").await;
    say(&store, &id, "two").await;
    window(&store, &id).await;
    proxy.lose(1);
    assert_eq!(window(&store, &id).await.exchanges.len(), 2);
    store.read(&id, Seq::FIRST, 1).await.unwrap();
    proxy.lose(1);
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
    // The first compaction prepares the statement. The second one is stored, and its repetition finds that.
    let incarnation = first.revision.incarnation();
    let stored = store.compact(&id, incarnation, compact(CompactionVersion::NONE, 0)).await.unwrap();
    assert_eq!(stored, CompactOutcome::Stored(CompactionVersion::new(1)));
    proxy.lose(1);
    let stored = store.compact(&id, incarnation, compact(CompactionVersion::new(1), 1)).await.unwrap();
    assert_eq!(stored, CompactOutcome::Stored(CompactionVersion::new(2)));
    say(&store, &conversation("other"), "one").await;
    store.delete(&conversation("other")).await.unwrap();
    for lost in [1, 2] {
        say(&store, &id, "one").await;
        proxy.lose(lost);
        store.delete(&id).await.unwrap();
        assert!(proxy.has_lost());
        assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
        // Statements of the lost connection are prepared again.
        store.delete(&conversation("other")).await.unwrap();
        say(&store, &conversation("other"), "one").await;
        store.delete(&conversation("other")).await.unwrap();
    }
}

async fn a_truncation_that_may_be_committed_is_not_repeated() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let id = conversation("a");
    let cut = async |number: u64| {
        let last = say(&store, &id, "cut").await;
        assert_eq!(last.seq, Seq::new(number));
        store.truncate(&id, last.revision, Seq::new(number), None).await.map(|truncated| truncated.removed)
    };
    say(&store, &id, "stays").await;
    assert_eq!(cut(1).await.unwrap(), 1);
    proxy.trips();
    assert_eq!(cut(1).await.unwrap(), 1);
    let trips = isize::try_from(proxy.trips()).unwrap();
    // The first answer is that of the append.
    for lost in 2..trips {
        proxy.lose(lost);
        let cut = cut(1).await;
        assert!(proxy.has_lost());
        assert_eq!(cut.unwrap(), 1, "answer {lost} of {trips}");
        // Statements of the lost connection are prepared again.
        say(&store, &id, "cut").await;
        let last = window(&store, &id).await.revision;
        store.truncate(&id, last, Seq::new(1), None).await.unwrap();
    }
    proxy.lose(trips);
    let open = cut(1).await.unwrap_err();
    assert!(proxy.has_lost() && open.is_retryable(), "{open:?}");
    assert_eq!(texts(&store, &id).await, ["stays"], "it was committed");

    // A prune is repeated, which is harmless, and reports the result.
    say(&store, &id, "newest").await;
    let incarnation = window(&store, &id).await.revision.incarnation();
    store.prune(&id, incarnation, PruneTo::LastTurns(9), Derived::Keep).await.unwrap();
    proxy.lose(2);
    let pruned = store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Keep).await.unwrap();
    assert!(proxy.has_lost());
    assert_eq!(pruned.removed, 1);
}

async fn a_failed_commit_is_repeated_only_if_it_was_certainly_rolled_back() {
    let url = database().await;
    let (store, admin) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    // 53200 is transient, but says nothing about the outcome of the transaction.
    for (state, done, tries) in [("53200", false, 1), ("40001", true, 2), ("40P01", true, 2)] {
        let last = say(&store, &id, "cut").await;
        let fails = format!(
            "create sequence public.tries; \
             create function public.fails() returns trigger language plpgsql as $$ begin \
                if nextval('public.tries') = 1 then raise exception using errcode = '{state}'; end if; return null; end $$; \
             create constraint trigger fails after update on chat_history.conversation deferrable initially deferred \
                for each row execute function public.fails()"
        );
        admin.batch_execute(&fails).await.unwrap();
        let cut = store.truncate(&id, last.revision, Seq::new(1), None).await;
        assert_eq!(cut.is_ok(), done, "{state}: {cut:?}");
        assert!(cut.err().is_none_or(|error| error.is_retryable()));
        let made = admin.query_one("select last_value from public.tries", &[]).await.unwrap();
        assert_eq!(made.get::<_, i64>(0), tries, "{state}");
        admin.batch_execute("drop function public.fails() cascade; drop sequence public.tries").await.unwrap();
        if !done {
            store.truncate(&id, last.revision, Seq::new(1), None).await.unwrap();
        }
    }
}
