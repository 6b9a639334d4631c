//! Damaged compactions.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Compact, CompactOutcome, CompactionVersion, Cut, HistoryStore, HistoryStoreExt, Load, Loaded, Profile, Seq,
    StoreError,
};

use super::{assert_no_secret, setup};
use crate::support::{append, key, say, texts, window};

pub(super) fn tests() -> Vec<Trial> {
    trials![
        a_damaged_compaction_prevents_no_append,
        a_compaction_with_damaged_positions_prevents_no_append,
        a_damaged_compaction_is_reported_without_quoting_it,
        a_truncation_removes_damaged_compactions,
    ]
}

/// The exchange was paid for, so it is stored whatever the state of the stored compaction.
async fn a_damaged_compaction_prevents_no_append() {
    let cut = r#"{"v":1,"window_start":1,"rounds_start":1,"cleared_before":1}"#;
    for (positions, record) in [("secret", cut), ("1 1 1 1 0 0 0 0 ab", "secret"), ("1 1 1", ""), ("", cut)] {
        for replaces in [0, 1, 77] {
            let (mut test, id) = setup().await;
            test.run::<()>(&["HSET", &key(&id, ""), "v:default", positions, "c:default", record]);
            let replaces = CompactionVersion::new(replaces);
            let compact = Compact::new(Profile::default(), replaces, Cut::window_from(Seq::new(1)));
            let appended = test.store.append(&id, append("four").compact(compact)).await.unwrap();
            assert_eq!((appended.seq, appended.duplicate), (Seq::new(3), false), "{positions}");
            let outcome = appended.compaction.unwrap();
            let mends = positions == "1 1 1 1 0 0 0 0 ab" && replaces.get() == 1;
            assert_eq!(matches!(outcome, CompactOutcome::Stored(_)), mends, "{positions}: {outcome:?}");
            assert_eq!(test.store.conversation(&id).messages().await.unwrap().len(), 8);
        }
    }
}

/// The script compares positions that do not match the record, or that are beyond the log.
async fn a_compaction_with_damaged_positions_prevents_no_append() {
    let record = |window: u64, rounds: u64| {
        format!(r#"{{"v":1,"window_start":{window},"rounds_start":{rounds},"cleared_before":0}}"#)
    };
    for (positions, record) in [
        ("1 2 1 0 0 0 0 0 ab", record(1, 1)),
        ("1 99 1 0 0 0 0 0 ab", record(1, 1)),
        ("1 1 99 0 0 0 0 0 ab", record(1, 1)),
        ("1 1 1 99 0 0 0 0 ab", record(1, 1)),
        ("1 1 1 0 99 0 0 0 ab", record(1, 1)),
        ("1 1 1 0 0 99 0 0 ab", record(1, 1)),
        ("1 1 1 0 0 0 99 0 ab", record(1, 1)),
        ("1 1 1 0 0 0 0 99 ab", record(1, 1)),
        ("1 99 99 0 0 0 0 0 ab", record(99, 99)),
        ("1 1 99 0 0 0 0 0 ab", record(1, 99)),
        ("1 1 1 0 0 99 0 0 ab", record(1, 1).replace('}', ",\"reasoning_from\":99}")),
        ("1 1 1 0 0 0 99 0 ab", record(1, 1).replace('}', ",\"encrypted_from\":99}")),
        ("1 1 99 0 0 0 0 0 ab", "secret".to_owned()),
    ] {
        let (mut test, id) = setup().await;
        let incarnation = window(&test.store, &id).await.revision.incarnation();
        test.run::<()>(&["HSET", &key(&id, ""), "v:default", positions, "c:default", &record]);
        let replaces = CompactionVersion::new(1);
        let compact = Compact::new(Profile::default(), replaces, Cut::window_from(Seq::new(1)));
        for error in [
            test.store.load(&id, Load::new()).await.unwrap_err(),
            test.store.compact(&id, incarnation, compact.clone()).await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{positions}: {error:?}");
        }
        let appended = test.store.append(&id, append("four").compact(compact)).await.unwrap();
        assert_eq!((appended.seq, appended.compaction), (Seq::new(3), Some(CompactOutcome::Kept(None))), "{positions}");
        assert_eq!(test.store.conversation(&id).messages().await.unwrap().len(), 8);
    }
}

async fn a_damaged_compaction_is_reported_without_quoting_it() {
    let legal = "1 1 1 1 0 0 0 0 ab";
    for (positions, record) in [
        (legal, r#""secret""#),
        (legal, r#"{"v":9,"secret":1}"#),
        ("secret", r#"{"v":1,"window_start":1,"rounds_start":1,"cleared_before":1}"#),
        (legal, r#"{"v":1,"window_start":2,"rounds_start":1,"cleared_before":1}"#),
    ] {
        let (mut test, id) = setup().await;
        test.run::<()>(&["HSET", &key(&id, ""), "v:default", positions, "c:default", record]);
        let error = test.store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{error:?}");
        assert_no_secret(&error);
        assert_eq!(test.store.conversation(&id).messages().await.unwrap().len(), 6);
        assert_eq!(say(&test.store, &id, "four").await.seq, Seq::new(3));
        let other = Load::new().profile(Profile::new("other").unwrap());
        assert!(matches!(test.store.load(&id, other).await.unwrap(), Loaded::Window(_)));
    }
}

async fn a_truncation_removes_damaged_compactions() {
    let (mut test, id) = setup().await;
    let cut = r#"{"v":1,"window_start":1,"rounds_start":1,"cleared_before":1}"#;
    test.run::<()>(&["HSET", &key(&id, ""), "v:default", "1 1 1 1 0 0 0 0 ab", "c:default", "secret"]);
    test.run::<()>(&["HSET", &key(&id, ""), "v:half", "1 1 1 1 0 0 0 0 ab"]);
    test.run::<()>(&["HSET", &key(&id, ""), "c:other", "secret"]);
    test.run::<()>(&["HSET", &key(&id, ""), "v:right", "1 1 1 1 0 0 0 0 ab", "c:right", cut]);
    assert_eq!(test.store.conversation(&id).truncate(Seq::new(2)).await.unwrap().removed, 1);
    let mut fields: Vec<String> = test.run(&["HKEYS", &key(&id, "")]);
    fields.retain(|field| field.contains(':'));
    fields.sort();
    assert_eq!(fields, ["c:right", "v:right"]);
    assert_eq!(texts(&test.store, &id).await, ["one", "two"]);
}
