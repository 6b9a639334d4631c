//! Trimmers that keep any of the turns.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;
use serde_json::{Value, json};
use tower_chat_history_core::testing::shorthand::cases;
use tower_chat_history_core::{
    AnthropicMessages, Exchange, ExchangeId, Incarnation, LoadLimit, Message, Recorded, Revision, Seq, Window,
};
use tower_chat_history_test::messages::MessagesProvider;

use super::{Conditions, FitBudget, History, OnOpenTurn, Plan, PlanInput, plan_once as plan};
use crate::{
    budget::{KeepTurn, Limits, PromptTokens, TrimTurn, Trimmer, Watermarks},
    request::RequestInfo,
    tokens::{ByteEstimate, TokenCounter},
};

/// Keeps these parts of the turns, in order.
#[derive(Clone, Debug)]
struct Chosen(Vec<KeepTurn>);

impl Trimmer for Chosen {
    fn trim(&self, _: &[TrimTurn<'_>], _: u64) -> Vec<KeepTurn> {
        self.0.clone()
    }
}

fn message(role: &str, content: &Value) -> Message {
    Message::in_dialect(&AnthropicMessages, json!({"role": role, "content": content}).to_string()).unwrap()
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "a result"})
}

fn question() -> Message {
    message("user", &json!("and this one?"))
}

fn asks(id: &str) -> Message {
    message("assistant", &json!([{"type": "tool_use", "id": id, "name": "f", "input": {}}]))
}

fn answers(id: &str) -> Message {
    message("user", &json!([result(id)]))
}

/// Returns the result of a call, with a text. The text is sent without the call, too.
fn answers_and_says(id: &str) -> Message {
    message("user", &json!([result(id), {"type": "text", "text": "by the way"}]))
}

fn reply() -> Message {
    message("assistant", &json!("so"))
}

/// Records exchanges that all open turns, as an import does.
fn recorded(exchanges: Vec<Vec<Message>>) -> Vec<Recorded> {
    let exchanges = exchanges.into_iter().map(|messages| Exchange::new(ExchangeId::generate(), messages));
    (0..).map(Seq::new).zip(exchanges).map(|(seq, exchange)| Recorded::new(seq, exchange)).collect()
}

/// Plans a call that has room for this percentage of the log's tokens. Returns `None` if the call cannot be made.
fn planned(log: &[Recorded], input: &[Message], trimmer: &dyn Trimmer, percent: u64) -> Option<Plan> {
    planned_under(Conditions::UNKNOWN, log, input, trimmer, percent)
}

fn planned_under(
    conditions: Conditions<'_>,
    log: &[Recorded],
    input: &[Message],
    trimmer: &dyn Trimmer,
    percent: u64,
) -> Option<Plan> {
    let cost = |message: &Message| u64::from(ByteEstimate::new().count_message(message));
    let total = |messages: &[Message]| messages.iter().map(cost).sum::<u64>();
    let context =
        total(input) + log.iter().map(|recorded| total(&recorded.exchange.messages)).sum::<u64>() * percent / 100;
    let parts = PromptTokens { input: total(input), ..PromptTokens::default() };
    let limits = Limits { context, prompt: context, reserve: 0, least_reply: None, ratio: 1.0 };
    let (watermarks, trimmer) = (Watermarks::default(), Some(trimmer));
    let budget = FitBudget { limits, watermarks, clear: None, trimmer, stores: true, parts, cost: &cost };
    let window = Window::new(Revision::new(Incarnation::random(), 1), None, log.to_vec(), false);
    plan(&PlanInput {
        history: History::Window(&window),
        summary: None,
        summary_tokens: 0,
        input,
        instead: None,
        limit: LoadLimit::default(),
        on_open_turn: OnOpenTurn::Supersede,
        recall_reserve: None,
        recalls_others: false,
        spare: 0,
        leaves_out_recalled: false,
        conditions,
        budget: Some(budget),
    })
    .ok()
}

/// Plans a call with a trimmer that keeps this part of each turn, and returns what is sent of the log.
fn sent(log: Vec<Vec<Message>>, input: &[Message], keep: KeepTurn, percent: u64) -> Vec<Message> {
    let plan = planned(&recorded(log), input, &Chosen(vec![keep; 9]), percent).unwrap();
    assert!(plan.fit.trimming.by_trimmer);
    plan.fit.window
}

#[test]
fn a_reply_stays_only_with_the_turn_of_its_question() {
    let blank = message("user", &json!(" "));
    for unasked in [vec![answers_and_says("x"), reply()], vec![answers("x"), reply()], vec![blank, reply()]] {
        let log = vec![vec![question(), asks("x")], unasked, vec![question(), reply()]];
        let turns = Chosen(vec![KeepTurn::Nothing, KeepTurn::Whole]);
        let plan = planned(&recorded(log), &[question()], &turns, 90).unwrap();
        assert_eq!((plan.fit.trimming.by_trimmer, plan.fit.window), (true, vec![question(), reply()]));
    }
}

#[test]
fn a_turn_that_the_input_continues_keeps_what_was_said_beside_results_of_an_earlier_turn() {
    let log = vec![vec![question(), asks("x")], vec![answers_and_says("x"), asks("y")]];
    let said = message("user", &json!([{"type": "text", "text": "by the way"}]));
    assert_eq!(sent(log, &[answers("y")], KeepTurn::Nothing, 95), [said, asks("y")]);
}

#[test]
fn a_request_that_thinks_with_a_budget_is_compacted_without_the_trimmer() {
    let log = recorded(vec![vec![question(), reply()]; 4]);
    let oldest = Chosen(vec![KeepTurn::Whole]);
    let plan = planned(&log, &[question()], &oldest, 90).unwrap();
    assert_eq!((plan.fit.trimming.by_trimmer, plan.fit.for_this_call, plan.fit.window.len()), (true, true, 2));

    let mut request = RequestInfo::new();
    request.thinks_with_budget = true;
    let conditions = Conditions { request: &request, ..Conditions::UNKNOWN };
    let plan = planned_under(conditions, &log, &[question()], &oldest, 90).unwrap();
    assert_eq!((plan.fit.trimming.by_trimmer, plan.fit.trimming.trimmer_failed), (false, false));
    assert_eq!((plan.fit.for_this_call, plan.fit.cut.is_some(), plan.fit.window.len()), (false, true, 4));
}

/// A message of a log. A result answers the newest call, or the one before it.
#[derive(Clone, Copy, Debug)]
enum Says {
    Question,
    Blank,
    Answers(usize),
    /// The result, and a text.
    AnswersAside(usize),
    Reply,
    BlankReply,
    Asks,
}

impl Says {
    /// Returns the message after this number of calls, whose ids are different.
    fn message(self, calls: &mut usize) -> Message {
        let id = |back: usize| calls.saturating_sub(1 + back).to_string();
        match self {
            Self::Question => question(),
            Self::Blank => message("user", &json!(" ")),
            Self::Answers(back) => answers(&id(back)),
            Self::AnswersAside(back) => answers_and_says(&id(back)),
            Self::Reply => reply(),
            Self::BlankReply => message("assistant", &json!("")),
            Self::Asks => {
                *calls += 1;
                asks(&(*calls - 1).to_string())
            }
        }
    }
}

fn any_exchange() -> impl Strategy<Value = Vec<Says>> {
    let opening = prop_oneof![
        4 => Just(Says::Question),
        1 => Just(Says::Blank),
        3 => (0..2usize).prop_map(Says::Answers),
        3 => (0..2usize).prop_map(Says::AnswersAside),
    ];
    let reply = prop_oneof![3 => Just(Says::Reply), 1 => Just(Says::BlankReply), 4 => Just(Says::Asks)];
    (prop::collection::vec(opening, 1..3), reply).prop_map(|(mut says, reply)| {
        says.push(reply);
        says
    })
}

fn any_input() -> impl Strategy<Value = Says> {
    prop::sample::select(vec![Says::Question, Says::Answers(0), Says::AnswersAside(0)])
}

#[test]
fn the_provider_accepts_what_any_trimmer_keeps() {
    let keep = prop::sample::select(vec![KeepTurn::Whole, KeepTurn::WithoutRounds, KeepTurn::Nothing]);
    let any = (
        prop::collection::vec(any_exchange(), 1..8),
        any_input(),
        prop::collection::vec(keep, 0..8),
        50..100_u64,
        any::<bool>(),
    );
    let (provider, trimmed, cases) = (MessagesProvider::new("one"), AtomicUsize::new(0), cases(5_000));
    proptest!(ProptestConfig::with_cases(cases), |((log, input, keep, percent, splits) in any)| {
        let mut calls = 0;
        let log: Vec<Vec<Message>> =
            log.iter().map(|says| says.iter().map(|says| says.message(&mut calls)).collect()).collect();
        let input = input.message(&mut calls);
        let log = if splits { Recorded::log(log.concat()) } else { recorded(log) };
        if let Some(plan) = planned(&log, std::slice::from_ref(&input), &Chosen(keep), percent) {
            let messages: Vec<&str> = plan.fit.window.iter().chain([&input]).map(Message::json).collect();
            let body = format!(r#"{{"model":"claude-opus-5-5","max_tokens":64,"messages":[{}]}}"#, messages.join(","));
            prop_assert_eq!(provider.check(&body), Ok(()), "{}", body);
            trimmed.fetch_add(usize::from(plan.fit.trimming.by_trimmer), Relaxed);
        }
    });
    let trimmed = trimmed.into_inner();
    assert!(cases < 1_000 || trimmed * 20 > cases as usize, "only {trimmed} prompts were trimmed");
}
