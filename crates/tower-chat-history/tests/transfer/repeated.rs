//! Repeated and interrupted imports, and logs that differ.

use std::sync::Arc;

use proptest::prelude::*;
use tower_chat_history::transfer::{ExportOptions, ImportError, ImportOptions, Importer};
use tower_chat_history_core::{Cut, Cuts, HistoryStore, Labels, Profile, Seq, StoreError};

use crate::support::{
    Logs, TestStore, assert_skipped, compaction, exported, fill, id, imported, prefix, texts, try_export, try_import,
};

async fn source() -> TestStore {
    let store = TestStore::default();
    fill(&store, "a/1", 0, 3).await;
    fill(&store, "a/2", 4, 40).await;
    store.change(|logs| logs.get_mut("a/1").unwrap().labels = Labels::new([("title", "Nemo")]).unwrap());
    store
}

#[tokio::test]
async fn a_repeated_import_stores_nothing() {
    let (source, target) = (source().await, TestStore::default());
    let lines = exported(&source, "a").await;
    let first = imported(&target, &lines).await;
    assert_eq!((first.stored, first.present, first.labels, first.skipped), (43, 0, 1, 0));
    let logs = target.logs();
    let again = imported(&target, &lines).await;
    assert_eq!((again.stored, again.present, again.labels, again.skipped), (0, 43, 0, 0));
    let revisions = |logs: &Logs| logs.values().map(|log| log.revision()).collect::<Vec<_>>();
    assert_eq!(revisions(&target.logs()), revisions(&logs));
}

#[tokio::test]
async fn a_newer_export_adds_what_is_new() {
    let (source, target) = (source().await, TestStore::default());
    imported(&target, &exported(&source, "a").await).await;
    source
        .append(
            &id("a/1"),
            tower_chat_history_core::Append::new(
                tower_chat_history_core::Expect::AnyOrCreate,
                crate::support::exchange("new", 9_000),
            ),
        )
        .await
        .unwrap();
    let report = imported(&target, &exported(&source, "a").await).await;
    assert_eq!((report.stored, report.present), (1, 43));
    assert_eq!(texts(&target), texts(&source));
}

#[tokio::test]
async fn a_conversation_that_the_store_cannot_take_does_not_stop_the_import() {
    let (source, target) = (source().await, TestStore::default());
    let mut appends = 0;
    target.before_each(move |method, _| {
        appends += u32::from(method == "append");
        if method == "append" && appends == 3 { Err(StoreError::backend("too long")) } else { Ok(()) }
    });
    let report = imported(&target, &exported(&source, "a").await).await;
    assert_skipped(&report, "too long");
    assert_eq!(report.stored, 42);
}

#[tokio::test]
async fn a_conversation_that_is_damaged_in_the_store_does_not_stop_the_import() {
    let source = source().await;
    let compaction = compaction(&Cuts::new(Cut::window_from(Seq::new(1))));
    source.change(|logs| logs.get_mut("a/1").unwrap().compactions.insert(Profile::default(), compaction));
    let export = exported(&source, "a").await;
    for fails in ["read", "load", "compact", "set_labels"] {
        let target = TestStore::default();
        let mut is_first = true;
        target.before_each(move |method, _| match method == fails && std::mem::take(&mut is_first) {
            true => Err(StoreError::backend("damaged")),
            false => Ok(()),
        });
        let report = imported(&target, &export).await;
        assert_skipped(&report, "damaged");
        assert_eq!(report.skipped, 1, "{fails}: {report:?}");
        assert!(report.stored >= 30, "{fails}: {report:?}");
    }
}

#[tokio::test]
async fn two_logs_are_never_mixed() {
    let (source, target) = (source().await, TestStore::default());
    fill(&target, "a/1", 0, 1).await;
    target.change(|logs| {
        logs.get_mut("a/1")
            .unwrap()
            .exchanges
            .push(tower_chat_history_core::Recorded::new(Seq::new(1), crate::support::exchange("other", 7)));
    });
    let report = imported(&target, &exported(&source, "a").await).await;
    assert_skipped(&report, "conversation a/1: the store has another exchange at position 1");
    assert_eq!((report.present, report.stored), (1, 40), "the other conversation is imported");
    assert_eq!(target.logs()["a/1"].exchanges.len(), 2);
}

#[tokio::test]
async fn a_log_that_ends_before_the_export_begins_is_not_continued() {
    let (source, target) = (source().await, TestStore::default());
    fill(&target, "a/2", 0, 2).await;
    let report = imported(&target, &exported(&source, "a/2").await).await;
    assert_skipped(&report, "the log in the store ends before position 4");
    assert_eq!(target.logs()["a/2"].exchanges.len(), 2);
}

#[tokio::test]
async fn pruned_exchanges_do_not_come_back() {
    let (source, target) = (source().await, TestStore::default());
    let lines = exported(&source, "a/1").await;
    imported(&target, &lines).await;
    target.change(|logs| logs.get_mut("a/1").unwrap().prune(Seq::new(2)));
    let report = imported(&target, &lines).await;
    assert_eq!((report.pruned, report.present, report.stored, report.skipped), (2, 1, 0, 0));
}

#[tokio::test]
async fn other_labels_stay() {
    let (source, target) = (source().await, TestStore::default());
    let lines = exported(&source, "a/1").await;
    imported(&target, &lines).await;
    target.change(|logs| logs.get_mut("a/1").unwrap().labels = Labels::new([("title", "Mine")]).unwrap());
    assert_skipped(&imported(&target, &lines).await, "the store has other labels");
    assert_eq!(target.logs()["a/1"].labels.get("title"), Some("Mine"));
}

#[tokio::test]
async fn a_conversation_that_is_erased_during_its_import_does_not_return() {
    let (source, target) = (source().await, TestStore::default());
    let lines = exported(&source, "a/2").await;
    let mut appends = 0;
    target.before_each(move |name, logs| {
        appends += usize::from(name == "append");
        if appends == 3 {
            logs.clear();
        }
        Ok(())
    });
    assert_skipped(&imported(&target, &lines).await, "was changed during the import");
    assert!(target.logs().is_empty());
}

#[tokio::test]
async fn an_append_whose_outcome_is_unknown_is_repeated() {
    let (source, target) = (source().await, TestStore::default());
    let mut calls = 0;
    target.before_each(move |name, _| {
        calls += usize::from(name == "append");
        if name == "append" && calls % 2 == 1 { Err(StoreError::unavailable("lost")) } else { Ok(()) }
    });
    let report = imported(&target, &exported(&source, "a").await).await;
    assert_eq!((report.stored, report.skipped), (43, 0));
    assert_eq!(texts(&target), texts(&source));
}

#[tokio::test]
async fn conversations_can_be_renamed() {
    let (source, target) = (source().await, TestStore::default());
    let lines = exported(&source, "a").await;
    let to = |from, to| ImportOptions::new().rename(prefix(from), prefix(to));
    let report = try_import(&target, &lines, to("a/1", "b/9")).await.unwrap();
    assert_skipped(&report, "conversation a/2: the conversation is not under the prefix");
    try_import(&target, &lines, to("", "c")).await.unwrap();
    try_import(&target, &lines, to("a", "")).await.unwrap();
    assert_eq!(target.logs().into_keys().collect::<Vec<_>>(), ["1", "2", "b/9", "c/a/1", "c/a/2"]);
}

#[tokio::test]
async fn a_log_that_is_truncated_during_the_export_is_marked() {
    let store = TestStore::default();
    fill(&store, "a", 0, 200).await;
    let mut reads = 0;
    store.before_each(move |name, logs| {
        reads += usize::from(name == "read");
        if reads == 2 {
            logs.get_mut("a").unwrap().incarnation = tower_chat_history_core::Incarnation::random();
        }
        Ok(())
    });
    let (lines, report) = try_export(&store, "", ExportOptions::new()).await.unwrap();
    assert_eq!((report.exchanges, report.not_whole), (64, 1));
    let report = imported(&TestStore::default(), &lines).await;
    assert_skipped(&report, "the export has only the beginning: the log was deleted, truncated or pruned");
    assert!(report.is_whole, "the file is as it was written");
}

#[tokio::test]
async fn a_log_that_changes_before_its_first_page_is_exported_as_it_is_then() {
    let store = TestStore::default();
    fill(&store, "a", 0, 2).await;
    fill(&store, "b", 0, 2).await;
    let mut reads = 0;
    store.before_each(move |name, logs| {
        reads += usize::from(name == "read");
        if name == "read" && reads == 1 {
            logs.get_mut("a").unwrap().incarnation = tower_chat_history_core::Incarnation::random();
        }
        if name == "read" && reads == 3 {
            logs.remove("b");
        }
        Ok(())
    });
    let (lines, report) = try_export(&store, "", ExportOptions::new()).await.unwrap();
    assert_eq!((report.conversations, report.exchanges, report.not_whole), (1, 2, 0));
    assert_eq!(imported(&TestStore::default(), &lines).await.stored, 2);
}

#[tokio::test]
async fn exchanges_that_are_appended_during_the_export_are_not_in_it() {
    let store = TestStore::default();
    fill(&store, "a", 0, 70).await;
    let more = TestStore::default();
    fill(&more, "a", 0, 75).await;
    let mut reads = 0;
    store.before_each(move |name, logs| {
        reads += usize::from(name == "read");
        if reads == 2 {
            let log = logs.get_mut("a").unwrap();
            log.exchanges.clone_from(&more.logs()["a"].exchanges);
        }
        Ok(())
    });
    let (_, report) = try_export(&store, "", ExportOptions::new()).await.unwrap();
    assert_eq!((report.exchanges, report.not_whole), (70, 0));
}

proptest! {
    /// An import that fails anywhere continues when it is repeated.
    #[test]
    fn an_interrupted_import_continues(fails_at in 1_usize..70) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (source, target) = (source().await, TestStore::default());
            let lines = exported(&source, "a").await;
            let mut calls = 0;
            target.before_each(move |_, _| {
                calls += 1;
                // A failure is repeated once, so two calls fail.
                if (fails_at..fails_at + 2).contains(&calls) { Err(StoreError::unavailable("down")) } else { Ok(()) }
            });
            match try_import(&target, &lines, ImportOptions::new()).await {
                Ok(_) => {}
                Err(error) => assert!(matches!(error, ImportError::Store { .. }), "{error}"),
            }
            target.before_each(|_, _| Ok(()));
            let report = imported(&target, &lines).await;
            assert_eq!(report.skipped, 0);
            assert_eq!(texts(&target), texts(&source));
        });
    }
}

#[tokio::test]
async fn a_conversation_that_is_erased_before_its_first_exchange_does_not_return() {
    let (source, target) = (source().await, TestStore::default());
    let lines = exported(&source, "a/1").await;
    let mut importer = Importer::new(Arc::new(target.clone()), ImportOptions::new());
    for line in &lines[..2] {
        importer.feed(format!("{line}\n").as_bytes()).await.unwrap();
    }
    target.delete(&id("a/1")).await.unwrap();
    for line in &lines[2..] {
        importer.feed(format!("{line}\n").as_bytes()).await.unwrap();
    }
    assert_skipped(&importer.finish().await.unwrap(), "was changed during the import");
    assert!(target.logs().is_empty());
}

#[tokio::test]
async fn an_exchange_with_the_same_id_and_other_messages_is_another_one() {
    let (source, target) = (source().await, TestStore::default());
    let lines = exported(&source, "a/1").await;
    let mut other = crate::support::exchange("a/1-0", 1_000);
    other.messages.pop();
    target
        .append(&id("a/1"), tower_chat_history_core::Append::new(tower_chat_history_core::Expect::Absent, other))
        .await
        .unwrap();
    assert_skipped(&imported(&target, &lines).await, "another exchange at position 0");
    assert_eq!(target.logs()["a/1"].exchanges.len(), 1);
}
