//! Damaged, cut off and hostile files.

use std::sync::Arc;

use proptest::prelude::*;
use tower_chat_history::transfer::{ExportOptions, ImportError, ImportOptions};
use tower_chat_history_core::{
    Append, Compaction, CompactionVersion, Cut, Cuts, Expect, HistoryStore as _, Profile, Seq,
};

use crate::support::{
    TestStore, assert_skipped, compaction, exchange, exported, fill, id, imported, texts, try_export, try_import,
};

async fn lines() -> Vec<String> {
    let store = TestStore::default();
    fill(&store, "a", 0, 3).await;
    fill(&store, "b", 0, 2).await;
    exported(&store, "").await
}

#[tokio::test]
async fn a_cut_off_file_is_noticed_at_every_line() {
    let lines = lines().await;
    for len in 1..lines.len() {
        let report = imported(&TestStore::default(), &lines[..len]).await;
        assert!(!report.is_whole && report.skipped >= 1, "{len} lines");
        assert!(report.named.iter().any(|skipped| skipped.to_string().contains("cut off")), "{len} lines");
    }
    assert!(imported(&TestStore::default(), &lines).await.is_whole);
}

#[tokio::test]
async fn a_missing_line_is_noticed() {
    let lines = lines().await;
    for missing in 1..lines.len() {
        let mut rest = lines.clone();
        rest.remove(missing);
        let report = imported(&TestStore::default(), &rest).await;
        assert!(report.skipped >= 1, "without line {missing}: {report:?}");
    }
}

#[tokio::test]
async fn a_missing_exchange_is_noticed_at_the_line_after_it() {
    let mut lines = lines().await;
    lines.remove(3);
    let target = TestStore::default();
    let report = imported(&target, &lines).await;
    assert_skipped(&report, "line 4, conversation a: the line is damaged (its digest does not match");
    assert_eq!(target.logs()["a"].exchanges.len(), 1);
}

#[tokio::test]
async fn a_changed_line_ends_its_conversation_only() {
    let mut lines = lines().await;
    lines[3] = lines[3].replace("answer", "Answer");
    let target = TestStore::default();
    let report = imported(&target, &lines).await;
    assert_skipped(&report, "line 4, conversation a: the line is damaged (its digest does not match");
    assert_eq!((target.logs()["a"].exchanges.len(), target.logs()["b"].exchanges.len()), (1, 2));
}

#[tokio::test]
async fn a_missing_block_never_mixes_two_conversations() {
    let (lines, whole) = (lines().await, TestStore::default());
    imported(&whole, &lines).await;
    for from in 1..lines.len() {
        for to in from + 1..lines.len() {
            let rest: Vec<_> = lines[..from].iter().chain(&lines[to..]).cloned().collect();
            let target = TestStore::default();
            let report = imported(&target, &rest).await;
            assert!(report.skipped > 0, "without lines {from} to {to}");
            for (id, log) in target.logs() {
                let stored = &*log.exchanges;
                assert_eq!(stored, &whole.logs()[&id].exchanges[..stored.len()], "{id} without lines {from} to {to}");
            }
        }
    }
}

#[tokio::test]
async fn swapped_first_lines_store_nothing() {
    let mut lines = lines().await;
    lines.swap(1, 6);
    let target = TestStore::default();
    let report = imported(&target, &lines).await;
    assert_eq!((report.stored, report.skipped), (0, 2));
}

#[tokio::test]
async fn a_damaged_first_line_skips_its_conversation() {
    let mut lines = lines().await;
    lines[1] = "{\"type\":\"conversation\",\"id\":\"/\"}".into();
    let target = TestStore::default();
    let report = imported(&target, &lines).await;
    assert_skipped(&report, "line 2: the line is damaged (it is malformed");
    assert_eq!(target.logs().into_keys().collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn other_files_are_refused() {
    for (file, text) in [
        ("hello", "line 1 is not the beginning of an export: it is malformed (column 1)"),
        ("{\"type\":\"header\",\"format\":\"x\",\"version\":1}", "the format is not tower-chat-history"),
        ("{\"type\":\"header\",\"format\":\"tower-chat-history\",\"version\":2}", "the format has version 2"),
        ("{\"type\":\"exchange\"}", "it is malformed"),
    ] {
        let error = try_import(&TestStore::default(), &[file.into()], ImportOptions::new()).await.unwrap_err();
        assert!(matches!(error, ImportError::File { line: 1, .. }) && error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn an_empty_file_is_cut_off() {
    let report = imported(&TestStore::default(), &[]).await;
    assert!(!report.is_whole);
}

#[tokio::test]
async fn long_lines_are_not_kept() {
    let mut lines = lines().await;
    lines[3] = format!("{{\"type\":\"exchange\",\"x\":\"{}\"}}", "x".repeat(10_000));
    let report = try_import(&TestStore::default(), &lines, ImportOptions::new().max_line(5_000)).await.unwrap();
    assert_skipped(&report, "it has more than 5000 bytes");
}

#[tokio::test]
async fn deeply_nested_lines_are_read_without_recursion() {
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    let line = format!(
        "{{\"type\":\"exchange\",\"seq\":0,\"record\":{{\"v\":1,\"id\":\"e\",\"at\":1,\"messages\":[{{\"role\":\"user\",\"content\":{deep}}}]}},\"x\":{deep}}}"
    );
    let mut lines = lines().await;
    lines[2] = line;
    lines.drain(3..5);
    let target = TestStore::default();
    let report = imported(&target, &lines).await;
    assert_eq!(report.stored, 3);
    assert_skipped(&report, "do not match");
    let again = imported(&TestStore::default(), &exported(&target, "").await).await;
    assert_eq!((again.stored, again.skipped), (3, 0));
}

#[tokio::test]
async fn errors_do_not_quote_the_file() {
    let mut lines = lines().await;
    lines[2] = "{\"type\":\"exchange\",\"seq\":\"secret\",\"record\":\"secret\"}".into();
    let report = imported(&TestStore::default(), &lines).await;
    let shown = format!("{report:?}{}", serde_json::to_string(&report).unwrap());
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn a_compaction_that_does_not_fit_its_log_is_skipped() {
    let (source, target) = (TestStore::default(), TestStore::default());
    fill(&source, "a", 0, 3).await;
    let set = |store: &TestStore, window_start| {
        let compaction = compaction(&Cuts::new(Cut::window_from(Seq::new(window_start))));
        store.change(|logs| logs.get_mut("a").unwrap().compactions.insert(Profile::default(), compaction));
    };

    let continued = TestStore::default();
    fill(&continued, "a", 0, 1).await;
    let mut exchange = exchange("a-1", 1_001);
    exchange.continues = Some(Seq::FIRST);
    continued.append(&id("a"), Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    set(&continued, 1);
    let report = imported(&TestStore::default(), &exported(&continued, "").await).await;
    assert_skipped(&report, "compaction of profile default");

    set(&source, 1);
    let lines = exported(&source, "").await;
    assert_eq!(imported(&target, &lines).await.compactions, 1);
    set(&target, 2);
    let report = imported(&target, &lines).await;
    assert_skipped(&report, "compaction of profile default");
    assert_eq!(target.logs()["a"].compactions[&Profile::default()].window_start, Seq::new(2));
}

#[tokio::test]
async fn a_compaction_that_cannot_be_read_is_reported_without_its_text() {
    let store = TestStore::default();
    fill(&store, "a", 0, 2).await;
    let version = CompactionVersion::new(1);
    let unreadable = Compaction::new(version, Seq::FIRST, Arc::from(&b"secret"[..]), None);
    store.change(|logs| logs.get_mut("a").unwrap().compactions.insert(Profile::default(), unreadable));
    let options = ExportOptions::new().compactions([Profile::default()]);
    let (lines, report) = try_export(&store, "", options).await.unwrap();
    let [not_whole] = &*report.named else { panic!("{report:?}") };
    assert!(not_whole.reason.contains("default") && !not_whole.reason.contains("secret"), "{not_whole:?}");
    assert_eq!((report.exchanges, report.compactions), (2, 0));
    assert_eq!(imported(&TestStore::default(), &lines).await.stored, 2);
}

#[tokio::test]
async fn joined_files_are_read_one_after_the_other() {
    let mut both = lines().await;
    both.extend(lines().await);
    let report = imported(&TestStore::default(), &both).await;
    assert_eq!((report.exports, report.stored, report.present, report.skipped, report.is_whole), (2, 5, 5, 0, true));
}

proptest! {
    #[test]
    fn mutated_files_never_panic_and_are_never_taken_for_whole(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let lines = lines().await;
            let mut bytes = lines.join("\n").into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let target = TestStore::default();
            let mut importer = tower_chat_history::transfer::Importer::new(
                std::sync::Arc::new(target.clone()),
                ImportOptions::new(),
            );
            let fed = importer.feed(&bytes).await;
            let source = TestStore::default();
            imported(&source, &lines).await;
            if fed.is_ok() {
                let report = importer.finish().await.unwrap();
                assert!(report.skipped > 0 || texts(&target) == texts(&source));
            }
        });
    }
}
