//! Conversations in the items of OpenAI's Responses API, through the engine: whatever happens to a conversation, the
//! provider refuses no request of it.

mod case;
mod compactions;
mod mutant;
mod parallel;
mod talk;

use std::sync::Arc;

use proptest::test_runner::{Config, TestError, TestRunner};
use tower_chat_history::{
    HistoryOptions,
    dialect::{Dialect, OpenAiResponses},
    store::Origin,
};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_test::responses::{CallType, Say};

use self::{
    case::{Case, any_case},
    mutant::Mutant,
    talk::{Figures, Talk},
};

/// Runs the property with a dialect.
fn check(dialect: &'static dyn Dialect, cases: u32, figures: &Figures) -> Result<(), TestError<Case>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    TestRunner::new(config).run(&any_case(), |case| runtime.block_on(talk::run(dialect, &case, figures)))
}

#[test]
fn the_provider_refuses_nothing() {
    let (figures, cases) = (Figures::default(), cases(500));
    let outcome = check(&OpenAiResponses, cases, &figures);
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    println!("{figures}");
    if cases >= 500 {
        figures.check_that_all_happened();
    }
}

#[test]
fn without_a_rule_of_the_dialect_something_is_refused() {
    // Two providers can give the same id to different items.
    const SAME_ID: &str = "Duplicate item found";
    let mutants: [(&'static dyn Dialect, &[&str]); 6] = [
        (&Mutant::<{ mutant::NOT_BOUND_TO_NEXT }>, &["required following item"]),
        (&Mutant::<{ mutant::NOT_BOUND_TO_ORIGIN }>, &["could not be verified", SAME_ID]),
        (&Mutant::<{ mutant::IDS_STAY }>, &["without its required 'reasoning' item", SAME_ID]),
        (&Mutant::<{ mutant::ONE_SPACE }>, &["No tool"]),
        (&Mutant::<{ mutant::OPENS_NOTHING }>, &["No tool"]),
        (&Mutant::<{ mutant::CLOSES_ALWAYS }>, &[""]),
    ];
    for (mutant, refusals) in mutants {
        let outcome = check(mutant, 1_000, &Figures::default());
        let Err(TestError::Fail(reason, _)) = outcome else { panic!("{}: nothing was refused", mutant.name()) };
        let is_expected = refusals.iter().any(|refusal| reason.message().contains(refusal));
        assert!(is_expected, "{}: {reason}", mutant.name());
    }
}

fn one() -> HistoryOptions {
    HistoryOptions::new().origin(Origin::unknown().provider("one"))
}

#[tokio::test(start_paused = true)]
async fn every_item_is_sent_again_as_it_was_made() {
    let mut talk = Talk::new(&OpenAiResponses, one());
    let call =
        |kind, arguments: &str| Say::Call { kind, id: "x".into(), name: "f".into(), arguments: arguments.into() };
    let script = [
        Say::reasoning(),
        Say::Message { text: "I look.".into(), phase: Some("commentary") },
        Say::Reasoning(vec!["Hm.".into()]),
        call(CallType::Function, "{}"),
        call(CallType::Custom, "a"),
        Say::WebSearch,
        Say::Unknown,
    ];
    let asked = talk.ask(&script).await.unwrap();
    let answered = talk.answer(&[Say::reasoning(), Say::text("So.")], None).await.unwrap();
    let sent = talk.next_prompt().await;
    let results = asked.answers(talk::RESULT);
    let expected = [&[talk::QUESTION.to_owned()], &asked.output[..], &results, &answered.output, &sent[12..]].concat();
    assert_eq!((sent.clone(), sent.len()), (expected, 13));
    assert!(sent[1].contains(r#""summary":[]"#) && sent[2].contains(r#""phase":"commentary""#), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn another_account_gets_neither_reasoning_nor_the_ids_that_require_it() {
    let mut talk = Talk::new(&OpenAiResponses, one());
    talk.ask(&[Say::reasoning(), Say::WebSearch, Say::reasoning(), Say::call("x", "f", "{}")]).await.unwrap();
    talk.answer(&[Say::reasoning(), Say::text("So.")], None).await.unwrap();
    let all = talk.next_prompt().await;
    talk.call_as(Origin::unknown().provider("two"));
    let sent = talk.next_prompt().await;
    let kinds = |sent: &[String]| -> Vec<String> { sent.iter().map(|item| talk::kind(item)).collect() };
    assert_eq!(
        (all.len(), kinds(&sent)),
        (9, ["message", "function_call", "function_call_output", "message", "message"].map(str::to_owned).to_vec())
    );
    assert!(!sent.iter().any(|item| item.contains(r#""id""#)), "{sent:?}");
    talk.call_as(Origin::unknown().provider("one"));
    assert_eq!(talk.next_prompt().await, all, "the log has everything");
}

#[tokio::test(start_paused = true)]
async fn another_account_gets_requests_for_approval_with_their_ids() {
    let mut talk = Talk::new(&OpenAiResponses, one());
    let approval = Say::Call { kind: CallType::McpApproval, id: "x".into(), name: "f".into(), arguments: "{}".into() };
    let script = [Say::reasoning(), approval];
    let first = talk.ask(&script).await.unwrap();
    talk.call_as(Origin::unknown().provider("two"));
    let second = talk.answer(&script, None).await.unwrap();
    let sent = talk.next_prompt().await;
    assert_eq!((&sent[1], &sent[4]), (&first.output[1], &second.output[1]));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_begins_with_the_newest_compaction_item() {
    let mut talk = Talk::new(&OpenAiResponses, one());
    for _ in 0..3 {
        talk.ask(&[Say::reasoning(), Say::text("So.")]).await.unwrap();
    }
    talk.ask(&[Say::Compaction, Say::reasoning(), Say::call("x", "f", "{}")]).await.unwrap();
    talk.answer(&[Say::text("So.")], None).await.unwrap();
    let kinds: Vec<String> = talk.next_prompt().await.iter().map(|item| talk::kind(item)).collect();
    let expected = ["compaction", "reasoning", "function_call", "function_call_output", "message", "message"];
    assert_eq!(kinds, expected);
    talk.call_as(Origin::unknown().provider("two"));
    assert_eq!(talk.next_prompt().await.len(), 3 * 2 + 1 + 3 + 1, "another account gets what was before it");
}

#[tokio::test(start_paused = true)]
async fn a_response_that_was_interrupted_within_its_reasoning_is_not_sent() {
    let mut talk = Talk::new(&OpenAiResponses, one());
    let script = [Say::text("I think."), Say::reasoning(), Say::text("So.")];
    talk.interrupted(&script, 2).await.unwrap();
    let sent = talk.next_prompt().await;
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(sent[1].contains("I think."));
    assert_eq!(Arc::strong_count(&talk.store), 2, "the talk and its engine");
}
