//! Expiry by rules.

use std::time::Duration;

use proptest::prelude::*;
use tower_chat_history_core::StoreError;
use tower_chat_history_core::{Expiry, ExpiryRule, Prefix, Timestamp};

use crate::support::{TestStore, fill, id, prefix};

const fn at(millis: u64) -> Timestamp {
    Timestamp::from_unix_millis(millis)
}

fn ids(store: &TestStore) -> Vec<String> {
    store.logs().into_keys().collect()
}

#[tokio::test]
async fn idle_and_old_conversations_expire() {
    for (rule, kept) in [
        (ExpiryRule::Idle(Duration::from_millis(100)), vec!["a/new"]),
        (ExpiryRule::Age(Duration::from_millis(100)), vec![]),
        (ExpiryRule::Age(Duration::from_millis(101)), vec!["a/idle", "a/new"]),
        (ExpiryRule::Never, vec!["a/idle", "a/new"]),
    ] {
        let store = TestStore::default();
        fill(&store, "a/idle", 0, 1).await;
        fill(&store, "a/new", 0, 51).await;
        let expiry = Expiry::new().under(Prefix::all(), rule);
        let preview = expiry.preview(&store, at(1_100), None, 100).await.unwrap();
        assert_eq!(ids(&store).len(), 2, "a preview erases nothing");
        let run = expiry.run_once(&store, at(1_100), None, 100).await.unwrap();
        assert_eq!((run.examined, run.due, run.next), (2, 2 - kept.len() as u64, None));
        assert_eq!((run.removed.total().conversations, preview.due), (run.due, run.due));
        assert_eq!(ids(&store), kept, "{rule:?}");
    }
}

#[tokio::test]
async fn a_conversation_that_changes_in_the_meantime_stays() {
    let store = TestStore::default();
    fill(&store, "a", 0, 1).await;
    let later = TestStore::default();
    fill(&later, "a", 0, 2).await;
    store.before_each(move |name, logs| {
        if name == "erase_if" {
            logs.clone_from(&later.logs());
        }
        Ok(())
    });
    let expiry = Expiry::new().under(Prefix::all(), ExpiryRule::Idle(Duration::ZERO));
    let run = expiry.run_once(&store, at(5_000), None, 100).await.unwrap();
    assert_eq!((run.due, run.removed.total().conversations), (1, 0));
    assert_eq!(ids(&store), ["a"]);
}

#[tokio::test]
async fn a_run_that_failed_continues_where_it_stopped() {
    let store = TestStore::default();
    for name in ["a", "b", "c"] {
        fill(&store, name, 0, 1).await;
    }
    let mut calls = 0;
    store.before_each(move |name, _| {
        calls += usize::from(name == "erase_if");
        if calls == 2 { Err(StoreError::unavailable("down")) } else { Ok(()) }
    });
    let expiry = Expiry::new().under(Prefix::all(), ExpiryRule::Idle(Duration::ZERO));
    let error = expiry.run_once(&store, at(5_000), None, 100).await.unwrap_err();
    assert_eq!((error.done.examined, error.done.removed.total().conversations), (1, 1));
    store.before_each(|_, _| Ok(()));
    let run = expiry.run_once(&store, at(5_000), error.done.next.as_ref(), 100).await.unwrap();
    assert_eq!((run.examined, run.next, ids(&store).len()), (2, None, 0));
}

/// Neither a damaged conversation nor one that can never be erased keeps the others, whatever the length of a run.
#[tokio::test]
async fn conversations_that_always_fail_do_not_stop_the_expiry_of_others() {
    for limit in 1..8 {
        let store = TestStore::default();
        for name in ["a", "b", "c", "d", "e", "f"] {
            fill(&store, name, 0, 1).await;
        }
        store.change(|logs| ["a", "d"].map(|name| logs.get_mut(name).unwrap().exchanges.clear()));
        let mut calls = 0;
        store.before_each(move |name, _| {
            calls += usize::from(name == "erase_if");
            // The first call is for `b`.
            if name == "erase_if" && calls == 1 { Err(StoreError::backend("damaged")) } else { Ok(()) }
        });
        let expiry = Expiry::new().under(Prefix::all(), ExpiryRule::Idle(Duration::ZERO));
        let (mut from, mut numbers, mut first) = (None, [0; 5], None);
        loop {
            let run = expiry.run_once(&store, at(5_000), from.as_ref(), limit).await.unwrap();
            let more = [run.examined, run.damaged, run.due, run.failed, run.removed.total().conversations];
            numbers.iter_mut().zip(more).for_each(|(number, more)| *number += more);
            first = first.or(run.first_failure);
            from = run.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(first.map(|failure| failure.id.to_string()).as_deref(), Some("b"), "{limit}");
        assert_eq!((numbers, ids(&store)), ([6, 2, 4, 1, 3], ["a", "b", "d"].map(String::from).to_vec()), "{limit}");
    }
}

const PREFIXES: [&str; 6] = ["", "a", "a-2", "a/b", "a/b/c", "d"];
const IDS: [&str; 9] = ["a", "a-2", "a-2/x", "a/b", "a/b/c", "a/b/c/d", "a/bc", "d/e", "e"];

proptest! {
    /// Each conversation is looked at once, however long the runs are, and the rule of the longest prefix applies.
    #[test]
    fn the_longest_prefix_decides_whatever_the_length_of_a_run(
        rules in prop::collection::btree_map(0..PREFIXES.len(), any::<bool>(), 0..6),
        limit in 1_usize..5,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = TestStore::default();
            for id in IDS {
                fill(&store, id, 0, 1).await;
            }
            let rule = |expires: bool| if expires { ExpiryRule::Idle(Duration::ZERO) } else { ExpiryRule::Never };
            let expiry = rules.iter().fold(Expiry::new(), |expiry, (&at, &expires)| {
                expiry.under(prefix(PREFIXES[at]), rule(expires))
            });
            let expires = |text: &str| {
                let rules = rules.iter().filter(|(at, _)| prefix(PREFIXES[**at]).contains(&id(text)));
                rules.max_by_key(|(at, _)| PREFIXES[**at].len()).map(|(_, expires)| *expires)
            };
            let (mut from, mut examined) = (None, 0);
            loop {
                let run = expiry.run_once(&store, at(5_000), from.as_ref(), limit).await.unwrap();
                assert!(run.examined <= limit as u64);
                examined += run.examined;
                from = run.next;
                if from.is_none() {
                    break;
                }
            }
            let kept: Vec<_> = IDS.into_iter().filter(|id| expires(id) != Some(true)).collect();
            let mut left = ids(&store);
            left.sort_by_key(|left| IDS.iter().position(|id| id == left));
            assert_eq!(left, kept);
            assert_eq!(examined, IDS.into_iter().filter(|id| expires(id).is_some()).count() as u64);
        });
    }
}
