//! Searches that fail: the model is called without recalled messages, and nothing else changes.

use std::time::Duration;

use tokio::time::Instant;
use tower_chat_history::{
    HistoryOptions, Message,
    recall::{RecallError, RecallOptions},
    report::{RecallOutcome, RecallReport},
    store::{Citation, Recalled, Seq, StoreError},
};

use super::support::{Answer, Chat, ScriptedRecall, Search, answer, block, budget, options, question, recalled};

/// Runs turns until the window moves, then one turn whose search gives this answer. Asserts that the call, its exchange
/// and its compaction are those of a conversation without recall. Returns the report of the search.
async fn searched(found: impl Fn(&Search) -> Answer + Send + Sync + 'static) -> RecallReport {
    let chat = Chat::new(ScriptedRecall::after_fillers(move |_, search| found(search)));
    chat.until_moved().await;
    let before = chat.window().await;
    let (context, report) = chat.turn("question").await;
    assert_eq!(recalled(&context), [""; 0], "{report:?}");
    let sent: Vec<Message> = before.exchanges.iter().flat_map(|recorded| recorded.exchange.messages.clone()).collect();
    assert_eq!(context, [sent, vec![question("question")]].concat());
    let stored = chat.last_exchange().await;
    assert_eq!((stored.recalled, stored.messages), (None, vec![question("question"), answer()]));
    assert_eq!(chat.window().await.compaction, before.compaction);
    let found = report.recall.clone().unwrap();
    assert_eq!((found.exchanges, found.messages, found.tokens), (0, 0, 0));
    assert_eq!(report.tokens.unwrap().prompt.recalled, 0);
    found
}

fn kind(report: &RecallReport) -> &'static str {
    assert_eq!(report.outcome.kind(), "failed");
    report.outcome.error_kind().unwrap()
}

#[tokio::test]
async fn a_search_that_finds_nothing_changes_nothing() {
    let report = searched(|_| Answer::Nothing).await;
    assert!(matches!(report.outcome, RecallOutcome::Nothing));
    assert_eq!((report.outcome.kind(), report.outcome.error_kind()), ("nothing", None));
}

#[tokio::test]
async fn a_search_that_fails_is_reported() {
    assert_eq!(kind(&searched(|_| Answer::Fails(RecallError::search("broken"))).await), "search");
    let unavailable = |_: &Search| Answer::Fails(StoreError::unavailable("down").into());
    assert_eq!(kind(&searched(unavailable).await), "unavailable");
}

#[tokio::test(start_paused = true)]
async fn a_search_that_takes_too_long_is_reported_and_ends_at_its_timeout() {
    assert_eq!(kind(&searched(|_| Answer::Late(Duration::from_millis(251))).await), "timeout");
    assert!(matches!(searched(|_| Answer::Late(Duration::from_millis(249))).await.outcome, RecallOutcome::Nothing));

    let recall = ScriptedRecall::new(|_, _| Answer::Late(Duration::from_secs(100)));
    let short = RecallOptions::new(recall.clone()).timeout(Duration::from_millis(20));
    let chat = Chat::with_options(recall, HistoryOptions::new().context(budget()).recall(short));
    chat.until_moved().await;
    let begun = Instant::now();
    let (_, report) = chat.turn("question").await;
    assert_eq!((begun.elapsed().as_millis(), kind(report.recall.as_ref().unwrap())), (20, "timeout"));
}

#[tokio::test]
async fn messages_that_are_larger_than_allowed_are_not_shown() {
    let report = searched(|search| Answer::Shows(block(&"r".repeat(1_000), search.before))).await;
    assert_eq!(kind(&report), "too_large");
    let RecallOutcome::Failed(error) = &report.outcome else { panic!("failed") };
    assert_eq!(
        error.to_string(),
        format!("the recalled messages have 254 tokens, and {} are allowed", report.allowance)
    );
}

#[tokio::test]
async fn messages_that_cite_the_window_are_not_shown() {
    for after in [0, 1, 1_000] {
        let cites = move |search: &Search| {
            let inside = Seq::new(search.before.get() + after);
            Answer::Shows(Recalled::new("recalled", vec![Citation::new(Seq::FIRST, 0..1), Citation::new(inside, 0..1)]))
        };
        assert_eq!(kind(&searched(cites).await), "in_window");
    }
}

#[tokio::test]
async fn messages_that_are_not_a_plain_user_message_are_not_shown() {
    for json in [
        r#"{"role":"system","content":"recalled"}"#,
        r#"{"role":"assistant","content":"recalled"}"#,
        r#"{"role":"tool","tool_call_id":"x","content":"recalled"}"#,
        r#"{"role":"user","content":"recalled","tool_calls":[]}"#,
        r#"{"role":"user","content":"recalled","tool_call_id":"x"}"#,
        r#"{"role":"user","content":null}"#,
        r#"{"role":"user","content":" "}"#,
    ] {
        let shows = move |search: &Search| {
            let mut recalled = block("", search.before);
            recalled.message = Message::from_json(json).unwrap();
            Answer::Shows(recalled)
        };
        assert_eq!(kind(&searched(shows).await), "not_a_user_message", "{json}");
    }
}

#[tokio::test]
async fn messages_with_too_many_or_empty_citations_are_not_shown() {
    let (one, empty) = (Citation::new(Seq::FIRST, 0..1), Citation::new(Seq::FIRST, 3..3));
    for citations in [vec![one.clone(); 4_097], vec![one, empty]] {
        let shows = move |_: &Search| Answer::Shows(Recalled::new("recalled", citations.clone()));
        assert_eq!(kind(&searched(shows).await), "citations");
    }
}

#[tokio::test]
async fn a_turn_after_a_failed_search_searches_again() {
    let recall = ScriptedRecall::new(|number, search| match number % 2 {
        0 => Answer::Fails(RecallError::search("broken")),
        _ => Answer::Shows(block("recalled", search.before)),
    });
    let chat = Chat::with_options(recall.clone(), options(&recall));
    chat.until_moved().await;
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        let (_, report) = chat.turn("question").await;
        outcomes.push(report.recall.as_ref().unwrap().outcome.kind());
    }
    assert!(outcomes == ["failed", "shown", "failed", "shown"] || outcomes == ["shown", "failed", "shown", "failed"]);
}
