//! The property of signed history, over HTTP: whatever is said, the provider refuses no request.
//!
//! This tests more cases, and prints the numbers of things that happened:
//!
//! ```sh
//! export PROPTEST_CASES=100000
//! cargo test --release -p tower-chat-history --features http --test http refuses_nothing -- --nocapture
//! ```

use std::sync::Mutex;

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestError, TestRunner},
};
use serde_json::{Value, json};
use tower_chat_history::{
    ContextBudget, HistoryError, HistoryOptions, Message, Policies, dialect::CallId, policy::OnInterruption,
    report::TurnOutcome,
};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::Rounds;
use tower_chat_history_test::messages::Say;

use super::{Chat, mutant::Mutant};

/// A call.
#[derive(Clone, Debug)]
struct Step {
    /// `true` if open calls are answered. A question abandons them.
    answers: bool,
    form: Form,
    reply: Vec<Block>,
    /// The share of the stream's bytes that arrives. `None` if the call is unary.
    streams: Option<f64>,
    /// The caller sends the whole log before its input.
    resends: bool,
    head: u8,
}

/// The parts of a case that hold for all calls.
#[derive(Clone, Copy, Debug)]
struct Setup {
    /// The context window, in tokens. `None` is without limit.
    window: Option<u32>,
    /// Every request enables thinking with a budget. The provider then refuses results for calls whose reply lacks the
    /// thinking that it was made with.
    enables_thinking: bool,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Text,
    Blocks,
    /// The last block has a mark for the cache.
    Marked,
    /// Several messages of the user.
    Apart,
}

#[derive(Clone, Copy, Debug)]
enum Block {
    Thinking,
    Redacted,
    Text(&'static str),
    Call,
    Search,
    Unknown,
}

/// The numbers of things that happened.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    requests: u64,
    streams: u64,
    interrupted: u64,
    with_results: u64,
    resent: u64,
    too_large: u64,
    with_budget: u64,
    thinking: u64,
    marks: u64,
}

fn any_step() -> impl Strategy<Value = Step> {
    let block = prop_oneof![
        4 => Just(Block::Thinking),
        1 => Just(Block::Redacted),
        3 => prop::sample::select(vec!["so", "ähm", "", "\n"]).prop_map(Block::Text),
        4 => Just(Block::Call),
        1 => Just(Block::Search),
        1 => Just(Block::Unknown),
    ];
    let form = prop::sample::select(vec![Form::Text, Form::Blocks, Form::Marked, Form::Marked, Form::Apart]);
    let streams = prop_oneof![2 => Just(None), 2 => Just(Some(1.0)), 1 => (0.0..1.0).prop_map(Some)];
    let head = prop_oneof![6 => Just(0u8), 1 => 0..3u8];
    (prop::bool::weighted(0.8), form, prop::collection::vec(block, 1..5), streams, prop::bool::weighted(0.2), head)
        .prop_map(|(answers, form, reply, streams, resends, head)| Step {
            answers,
            form,
            reply,
            streams,
            resends,
            head,
        })
}

fn says(reply: &[Block], number: &mut u32) -> Vec<Say> {
    // A partial reply never equals another one. The mock tells replies apart by what they say.
    let mut id = |prefix: &str| {
        *number += 1;
        format!("{prefix}_{number}")
    };
    let say = |block: &Block| match block {
        Block::Thinking => Say::Thinking(id("hm")),
        Block::Redacted => Say::Redacted,
        Block::Text(text) if !text.trim().is_empty() => Say::Text(id(text) + "."),
        Block::Text(text) => Say::Text((*text).to_owned()),
        Block::Call => Say::call(id("toolu"), "look", json!({})),
        Block::Search => Say::Search(id("srvtoolu")),
        Block::Unknown => Say::Block(json!({"type": "later", "id": id("later"), "level": 1.5})),
    };
    reply.iter().map(say).collect()
}

/// Returns the reply of a model whose thinking has a budget: it begins with thinking. It has no blank text before
/// thinking, because the API accepts neither the blank text nor the reply without it.
fn with_budget(reply: &[Block]) -> Vec<Block> {
    let is_thinking = |block: &Block| matches!(block, Block::Thinking | Block::Redacted);
    let is_blank = |block: &Block| matches!(block, Block::Text(text) if text.trim().is_empty());
    let last = reply.iter().rposition(is_thinking).unwrap_or(0);
    let says = reply.iter().enumerate().filter(|(at, block)| *at > last || !is_blank(block));
    let says: Vec<Block> = says.map(|(_, block)| *block).collect();
    let lead = if says.first().is_some_and(is_thinking) { None } else { Some(Block::Thinking) };
    lead.into_iter().chain(says).collect()
}

/// Returns messages of the user with these blocks.
fn messages(form: Form, mut blocks: Vec<Value>) -> Vec<Value> {
    let user = |content: Value| json!({"role": "user", "content": content});
    match form {
        Form::Text if blocks.len() == 1 && blocks[0]["type"] == "text" => vec![user(blocks[0]["text"].clone())],
        Form::Text | Form::Blocks => vec![user(json!(blocks))],
        Form::Marked => {
            blocks.last_mut().unwrap()["cache_control"] = json!({"type": "ephemeral"});
            vec![user(json!(blocks))]
        }
        Form::Apart => blocks.into_iter().map(|block| user(json!([block]))).collect(),
    }
}

fn body(step: &Step, head: u8, enables_thinking: bool, log: &[Message], input: &[Value]) -> String {
    let resent = if step.resends { log } else { &[] };
    let input: Vec<String> = input.iter().map(Value::to_string).collect();
    let list: Vec<&str> = resent.iter().map(Message::json).chain(input.iter().map(String::as_str)).collect();
    let mut system = json!([{"type": "text", "text": format!("head {head}")}]);
    if head == 2 {
        system[0]["cache_control"] = json!({"type": "ephemeral"});
    }
    // The API takes no budget under 1,024 tokens. The mock takes any, so that small windows have room for it.
    let thinking = if enables_thinking { r#""thinking":{"type":"enabled","budget_tokens":50},"# } else { "" };
    format!(
        r#"{{"model":"claude","max_tokens":99,{thinking}"system":{system},"messages":[{}],"stream":{}}}"#,
        list.join(","),
        step.streams.is_some()
    )
}

/// Makes the calls of a case.
async fn run(
    steps: &[Step],
    setup: Setup,
    chat: impl FnOnce(HistoryOptions) -> Chat,
) -> Result<Figures, TestCaseError> {
    let mut options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::KeepText));
    if let Some(window) = setup.window {
        options = options.context(ContextBudget::tokens(window));
    }
    let chat = chat(options);
    let (mut figures, mut number, mut head_of_calls) = (Figures::default(), 0, 0);
    for step in steps {
        let mut rounds = Rounds::default();
        chat.exchanges().await.iter().for_each(|recorded| rounds.push_exchange(recorded));
        let open: Vec<CallId> = rounds.open().ids().filter(|_| step.answers).cloned().collect();
        let result = |call: &CallId| json!({"type": "tool_result", "tool_use_id": call.as_str(), "content": "r"});
        let mut blocks: Vec<Value> = open.iter().map(result).collect();
        figures.with_results += u64::from(!open.is_empty());
        if blocks.is_empty() {
            blocks.push(json!({"type": "text", "text": format!("and {number}?")}));
        }
        // Under another head, the thinking of the calls is not valid, and without it, the API refuses the results if
        // thinking has a budget.
        let head = if open.is_empty() || !setup.enables_thinking { step.head } else { head_of_calls };
        let log = chat.log().await;
        let body = body(step, head, setup.enables_thinking, &log, &messages(step.form, blocks));
        let reply = if setup.enables_thinking { with_budget(&step.reply) } else { step.reply.clone() };
        chat.mock.push(says(&reply, &mut number));
        let share = step.streams.unwrap_or(1.0);
        let answer = match chat.call(body, share).await {
            Ok(answer) => answer,
            Err(error) => {
                let is_too_large = matches!(error.downcast_ref(), Some(HistoryError::DoesNotFit(_)));
                prop_assert!(is_too_large, "{error}");
                figures.too_large += 1;
                break;
            }
        };
        prop_assert_eq!(answer.status, 200, "{}", answer.body);
        figures.requests += 1;
        figures.with_budget += u64::from(setup.enables_thinking);
        prop_assert_eq!(chat.mock.requests().len() as u64, figures.requests, "a call was refused and repeated");
        figures.streams += u64::from(step.streams.is_some());
        figures.resent += u64::from(step.resends && !log.is_empty());
        if matches!(chat.outcome(), TurnOutcome::Stored { .. }) {
            head_of_calls = head;
        }
        if share < 1.0 {
            figures.interrupted += 1;
            continue;
        }
        prop_assert!(matches!(chat.outcome(), TurnOutcome::Stored { .. }), "{:?}", chat.outcome());
        if step.streams.is_none() {
            let whole: Value = serde_json::from_str(&answer.body).unwrap();
            let stored: Value = serde_json::from_str(chat.log().await.last().unwrap().json()).unwrap();
            prop_assert_eq!(stored, json!({"role": "assistant", "content": whole["content"]}));
        }
    }
    figures.thinking = chat.mock.provider.counts().sent;
    figures.marks = chat.mock.requests().iter().map(|body| body.matches("cache_control").count() as u64).sum();
    Ok(figures)
}

#[test]
fn the_provider_refuses_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let total = Mutex::new(Figures::default());
    let many = cases(500);
    let config = Config { cases: many, failure_persistence: None, ..Config::default() };
    let window = prop_oneof![1 => Just(None), 1 => (60..400u32).prop_map(Some)];
    let setup = (window, any::<bool>()).prop_map(|(window, enables_thinking)| Setup { window, enables_thinking });
    let any = (prop::collection::vec(any_step(), 1..16), setup, any::<bool>());
    let outcome = TestRunner::new(config).run(&any, |(steps, setup, marks)| {
        let figures = runtime.block_on(run(&steps, setup, if marks { Chat::marking } else { Chat::of }))?;
        let mut total = total.lock().unwrap();
        total.requests += figures.requests;
        total.streams += figures.streams;
        total.interrupted += figures.interrupted;
        total.with_results += figures.with_results;
        total.resent += figures.resent;
        total.too_large += figures.too_large;
        total.with_budget += figures.with_budget;
        total.thinking += figures.thinking;
        total.marks += figures.marks;
        Ok(())
    });
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    let total = total.into_inner().unwrap();
    println!("{total:?}");
    if many >= 500 {
        let Figures { requests, streams, interrupted, with_results, resent, too_large, with_budget, thinking, marks } =
            total;
        let happened = [requests, streams, interrupted, with_results, resent, too_large, with_budget, thinking, marks];
        assert!(happened.iter().all(|count| *count > 10), "{total:?}");
    }
}

#[test]
fn a_wire_with_a_fault_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    const NONE: Setup = Setup { window: None, enables_thinking: false };
    for mutant in Mutant::ALL {
        let config = Config { cases: 1_000, failure_persistence: None, ..Config::default() };
        let steps = prop::collection::vec(any_step(), 1..16);
        let outcome = TestRunner::new(config)
            .run(&steps, |steps| runtime.block_on(run(&steps, NONE, |options| mutant.chat(options))).map(|_| ()));
        let Err(TestError::Fail(reason, _)) = outcome else { panic!("{mutant:?}: nothing was refused") };
        // A refusal that the layer understands is followed by a second call.
        let refused = ["a call was refused and repeated", "invalid_request_error"];
        assert!(refused.iter().any(|refused| reason.message().contains(refused)), "{mutant:?}: {reason}");
    }
}
