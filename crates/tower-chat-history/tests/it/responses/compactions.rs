//! Compaction items, in replies and in inputs.

use std::time::Duration;

use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions, Summaries, dialect::OpenAiResponses, store::Origin,
    summary::SummarizeWhen,
};
use tower_chat_history_test::responses::Say;

use super::{
    case::Counts,
    one,
    talk::{Talk, kind},
};

fn kinds(items: &[String]) -> Vec<String> {
    items.iter().map(|item| kind(item)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_compaction_that_the_caller_asked_for_begins_later_prompts_of_the_same_account() {
    let mut other = Talk::new(&OpenAiResponses, one());
    let compacted = other.ask(&[Say::Compaction, Say::text("So.")]).await.unwrap();
    let mut talk = Talk::new(&OpenAiResponses, one());
    talk.ask(&[Say::text("Well.")]).await.unwrap();
    talk.send(&compacted.output[..1], &[Say::text("So.")]).await.unwrap();
    let sent = talk.next_prompt().await;
    assert_eq!(kinds(&sent), ["compaction", "message", "message", "message"]);
    talk.call_as(Origin::unknown().provider("two"));
    let sent = talk.next_prompt().await;
    assert_eq!(kinds(&sent), ["message"; 5], "another account gets what was before it");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_begins_with_a_compaction_is_reported() {
    let mut talk = Talk::new(&OpenAiResponses, one());
    talk.ask(&[Say::text("Well.")]).await.unwrap();
    talk.ask(&[Say::Compaction, Say::text("So.")]).await.unwrap();
    let report = talk.report.take().unwrap();
    assert!(!report.begins_with_compaction && !report.abridged);
    talk.ask(&[Say::text("Well.")]).await.unwrap();
    let report = talk.report.take().unwrap();
    assert!(report.begins_with_compaction && report.abridged);
}

#[tokio::test(start_paused = true)]
async fn only_reasoning_is_reported_as_left_out() {
    let mut talk = Talk::new(&OpenAiResponses, one());
    let script = [Say::reasoning(), Say::WebSearch, Say::Compaction, Say::reasoning(), Say::text("So.")];
    talk.ask(&script).await.unwrap();
    talk.call_as(Origin::unknown().provider("two"));
    talk.ask(&[Say::text("Well.")]).await.unwrap();
    assert_eq!(talk.report.take().unwrap().reasoning_left_out, 2, "ids, searches and compactions do not count");
}

/// Returns `true` if a summary is made after a long turn with this reply.
async fn is_summarized(script: &[Say]) -> bool {
    let when = SummarizeWhen::AfterReply { percent: 30 };
    let summaries = Summaries::new(Counts).max_tokens(20).least_room(1).when(when).timeout(Duration::from_secs(5));
    let context = ContextOptions::new().budget(ContextBudget::tokens(600).reply_reserve(20).calibrate(false));
    let options: HistoryOptions = one().context(context).summaries(summaries);
    let mut talk = Talk::new(&OpenAiResponses, options);
    let long = Say::text("a reply that is rather long, so that the window is soon full. ".repeat(6));
    for _ in 0..2 {
        talk.ask(std::slice::from_ref(&long)).await.unwrap();
    }
    // The summaries of these turns are not the ones that are tested.
    talk.wait().await;
    let had_one = talk.has_summary().await;
    talk.ask(script).await.unwrap();
    talk.wait().await;
    assert!(!had_one, "the window was not full before");
    talk.has_summary().await
}

#[tokio::test(start_paused = true)]
async fn no_summary_is_made_of_what_a_compaction_stands_for() {
    let long = Say::text("a reply that is rather long, so that the window is soon full. ".repeat(6));
    assert!(is_summarized(&[long.clone(), Say::text("So.")]).await);
    assert!(!is_summarized(&[Say::Compaction, long, Say::text("So.")]).await);
}
