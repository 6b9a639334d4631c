//! Damaged compactions.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    CompactOutcome, CompactionVersion, HistoryStore, HistoryStoreExt, Load, Seq, StoreError,
};

use super::{assert_no_secret, setup};
use crate::support::{append, compact, key, texts, window};

pub(super) fn tests() -> Vec<Trial> {
    trials![
        a_damaged_compaction_prevents_no_append,
        a_damaged_compaction_is_reported_without_quoting_it,
        a_truncation_removes_damaged_compactions,
    ]
}

/// The exchange was paid for, so it is stored whatever the state of the stored compaction.
async fn a_damaged_compaction_prevents_no_append() {
    for numbers in ["secret", "1 1", "", "1 1 2 ab"] {
        for replaces in [0, 1, 77] {
            let (mut test, id) = setup().await;
            test.run::<()>(&["HSET", &key(&id, ""), "v:default", numbers, "c:default", "state", "d:default", ""]);
            let compact = compact(CompactionVersion::new(replaces), 1, None);
            let appended = test.store.append(&id, append("four").compact(compact)).await.unwrap();
            assert_eq!((appended.seq, appended.duplicate), (Seq::new(3), false), "{numbers}");
            assert_eq!(appended.compaction, Some(CompactOutcome::Kept(None)), "{numbers}");
            assert_eq!(test.store.conversation(&id).messages().await.unwrap().len(), 8);
        }
    }
}

async fn a_damaged_compaction_is_reported_without_quoting_it() {
    for (numbers, field) in [("secret", "c:default"), ("1 99 0 ab", "c:default"), ("1 1 1 ab", "d:other")] {
        let (mut test, id) = setup().await;
        let incarnation = window(&test.store, &id).await.revision.incarnation();
        test.run::<()>(&["HSET", &key(&id, ""), "v:default", numbers, field, "secret"]);
        let error = test.store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{numbers}: {error:?}");
        assert_no_secret(&error);
        let refused = test.store.compact(&id, incarnation, compact(CompactionVersion::new(7), 1, None)).await;
        assert!(refused.is_err() || numbers == "1 99 0 ab", "{numbers}: {refused:?}");
    }
}

async fn a_truncation_removes_damaged_compactions() {
    let (mut test, id) = setup().await;
    test.run::<()>(&["HSET", &key(&id, ""), "v:default", "secret", "c:default", "secret", "d:other", "secret"]);
    assert_eq!(test.store.conversation(&id).truncate(Seq::new(2)).await.unwrap().removed, 1);
    let mut fields: Vec<String> = test.run(&["HKEYS", &key(&id, "")]);
    fields.retain(|field| field.contains(':'));
    assert_eq!(fields, [""; 0]);
    assert_eq!(texts(&test.store, &id).await, ["one", "two"]);
}
