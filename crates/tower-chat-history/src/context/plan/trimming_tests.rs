//! Trimmers that keep any of the turns.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use proptest::prelude::*;
use serde_json::{Value, json};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{
    AnthropicMessages, Cut, Cuts, Exchange, ExchangeId, Incarnation, Message, Recorded, Revision, Seq, Window,
};
use tower_chat_history_test::messages::MessagesProvider;

use super::{
    CallBudget, Conditions, FitBudget, LoadedWindow, Plan, PlanInput,
    tests::{plan_input, plan_whole as plan},
};
use crate::context::{
    bridge::{NO_REPLY, constant_reply, is_constant_reply, waits_for_reply},
    budget::{CallLimits, KeepTurn, PromptTokens, TrimTurn, Trimmer, Watermarks},
    request::RequestInfo,
    tokens::{ByteEstimate, TokenCounter},
};

/// Keeps these parts of the turns, in order, and records the messages of each turn.
#[derive(Debug, Default)]
struct Chosen {
    keep: Vec<KeepTurn>,
    offered: Mutex<Vec<Vec<Message>>>,
}

impl Chosen {
    fn new(keep: impl Into<Vec<KeepTurn>>) -> Self {
        Self { keep: keep.into(), offered: Mutex::default() }
    }

    /// Returns the messages of each turn of the last call, with the part that was kept.
    fn turns(self) -> impl Iterator<Item = (Vec<Message>, KeepTurn)> {
        let keep = self.keep.into_iter().chain(std::iter::repeat(KeepTurn::Nothing));
        self.offered.into_inner().unwrap().into_iter().zip(keep)
    }
}

impl Trimmer for Chosen {
    fn trim(&self, turns: &[TrimTurn<'_>], _: u64) -> Vec<KeepTurn> {
        *self.offered.lock().unwrap() = turns.iter().map(|turn| turn.messages.to_vec()).collect();
        self.keep.clone()
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

/// Returns the result of a call, with a text. The text is sent if the call is left out, too.
fn answers_and_says(id: &str) -> Message {
    message("user", &json!([result(id), {"type": "text", "text": "by the way"}]))
}

fn reply() -> Message {
    message("assistant", &json!("so"))
}

/// Records exchanges that all open turns. An import does so for results besides a text.
fn recorded(exchanges: Vec<Vec<Message>>) -> Vec<Recorded> {
    let exchanges = exchanges.into_iter().map(|messages| Exchange::new(ExchangeId::generate(), messages));
    (0..).map(Seq::new).zip(exchanges).map(|(seq, exchange)| Recorded::new(seq, exchange)).collect()
}

fn tokens(messages: &[Message]) -> u64 {
    messages.iter().map(|message| u64::from(ByteEstimate::new().count_message(message))).sum()
}

/// The calls of a test: the log, the first exchange whose rounds are kept, the input, and the conditions.
struct Calls<'a> {
    log: &'a [Recorded],
    rounds_start: u64,
    input: Message,
    conditions: Conditions<'a>,
}

impl<'a> Calls<'a> {
    fn new(log: &'a [Recorded], input: Message) -> Self {
        Self { log, rounds_start: 0, input, conditions: Conditions::unknown() }
    }

    /// Plans a call that has room for this percentage of the log's tokens. Returns `None` if it cannot be made.
    fn plan(&self, trimmer: &dyn Trimmer, percent: u64) -> Option<Plan> {
        let cost = |message: &Message| tokens(std::slice::from_ref(message));
        let input = std::slice::from_ref(&self.input);
        let of_log: u64 = self.log.iter().map(|recorded| tokens(&recorded.exchange.messages)).sum();
        let context = tokens(input) + of_log * percent / 100;
        let limits = CallLimits { context, prompt: context, reserve: 0, least_reply: None, ratio: 1.0 };
        let sizes = PromptTokens { input: tokens(input), ..PromptTokens::default() };
        let call = CallBudget { limits, sizes };
        let (watermarks, trimmer) = (Watermarks::default(), Some(trimmer));
        let budget = FitBudget { call, watermarks, clear: None, trimmer, stores: true, cost: &cost };
        let mut cut = Cut::window_from(Seq::FIRST);
        cut.rounds_start = Seq::new(self.rounds_start);
        let window = Window::new(Revision::new(Incarnation::random(), 1), None, self.log.to_vec(), false);
        let window = LoadedWindow { cuts: Some(Cuts::new(cut)), ..LoadedWindow::read(window).unwrap() };
        let (conditions, budget) = (self.conditions, Some(budget));
        plan(&PlanInput { conditions, budget, ..plan_input(&window, input) }).ok()
    }

    /// Returns what is sent of the log if the trimmer keeps this part of each turn.
    fn sent(&self, keep: KeepTurn) -> Vec<Message> {
        let plan = self.plan(&Chosen::new([keep; 9]), 95).unwrap();
        assert!(plan.fit.trimming.by_trimmer);
        assert_eq!(plan.fit.tokens, tokens(&plan.fit.window));
        plan.fit.window
    }
}

#[test]
fn a_reply_stays_only_with_the_turn_of_its_question() {
    let (blank, instruction) = (message("user", &json!(" ")), message("system", &json!("Be brief.")));
    for unasked in [answers_and_says("x"), answers("x"), blank, instruction] {
        let log = recorded(vec![vec![question(), asks("x")], vec![unasked, reply()], vec![question(), reply()]]);
        let plan = Calls::new(&log, question()).plan(&Chosen::new([KeepTurn::Nothing, KeepTurn::Whole]), 90).unwrap();
        assert_eq!((plan.fit.trimming.by_trimmer, plan.fit.window), (true, vec![question(), reply()]));
    }
}

#[test]
fn a_turn_that_the_input_continues_keeps_what_was_said_beside_results_of_an_earlier_turn() {
    let said = message("user", &json!([{"type": "text", "text": "by the way"}]));
    let log = recorded(vec![
        vec![question(), asks("w"), answers("w"), asks("x")],
        vec![answers_and_says("x"), asks("y")],
        vec![question()],
    ]);
    let calls = Calls::new(&log[..2], answers("y"));
    assert_eq!(calls.sent(KeepTurn::Nothing), [said.clone(), asks("y")]);
    let no_reply = constant_reply(&said, NO_REPLY).unwrap();
    assert_eq!(calls.sent(KeepTurn::WithoutRounds), [question(), no_reply, said, asks("y")]);
}

#[test]
fn a_turn_after_an_abandoned_call_is_a_turn_of_its_own() {
    let log = recorded(vec![vec![question(), asks("x")], vec![question(), reply()], vec![question(), reply()]]);
    let trimmer = Chosen::new([KeepTurn::Nothing, KeepTurn::Whole, KeepTurn::Whole]);
    let plan = Calls::new(&log, question()).plan(&trimmer, 90).unwrap();
    assert_eq!((plan.fit.trimming.by_trimmer, plan.fit.window.len()), (true, 4));
    assert_eq!(trimmer.turns().map(|(messages, _)| messages.len()).collect::<Vec<_>>(), [4, 2, 2]);
}

#[test]
fn an_instruction_stays_with_the_question_before_it() {
    let (one, two, three) = (Message::user("one"), Message::user("two"), Message::user("three"));
    let instruction = Message::system("Be brief.");
    let log = vec![vec![one.clone()], vec![instruction.clone()], vec![two, Message::assistant("so")]];
    let log = recorded(log);
    let trimmer = Chosen::new([KeepTurn::Whole, KeepTurn::Nothing, KeepTurn::Whole]);
    let plan = Calls::new(&log, three).plan(&trimmer, 90).unwrap();
    assert_eq!((plan.fit.trimming.by_trimmer, plan.fit.window), (true, vec![one, instruction]));
    assert_eq!(trimmer.turns().map(|(messages, _)| messages.len()).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn a_request_that_thinks_with_a_budget_is_compacted_without_the_trimmer() {
    let log = recorded(vec![vec![question(), reply()]; 4]);
    let oldest = Chosen::new([KeepTurn::Whole]);
    let mut calls = Calls::new(&log, question());
    let plan = calls.plan(&oldest, 90).unwrap();
    assert_eq!((plan.fit.trimming.by_trimmer, plan.fit.for_this_call, plan.fit.window.len()), (true, true, 2));

    let mut request = RequestInfo::new();
    request.thinks_with_budget = true;
    calls.conditions = Conditions { request: &request, ..Conditions::unknown() };
    let plan = calls.plan(&oldest, 90).unwrap();
    assert_eq!((plan.fit.trimming.by_trimmer, plan.fit.trimming.trimmer_failed), (false, false));
    assert_eq!((plan.fit.for_this_call, plan.fit.cut.is_some(), plan.fit.window.len()), (false, true, 4));
}

/// A message of a log. A result answers the newest call, or the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Question,
    Blank,
    /// An instruction. The provider takes it only between a question and a reply.
    Instruction,
    Answers(usize),
    AnswersAndText(usize),
    Reply,
    BlankReply,
    Asks,
}

/// Writes messages that all differ.
#[derive(Default)]
struct Writer {
    messages: usize,
    calls: usize,
}

impl Writer {
    fn message(&mut self, says: Says) -> Message {
        self.messages += 1;
        let (number, said) = (self.messages, json!(format!("this is {}", self.messages)));
        let id = |back: usize| self.calls.saturating_sub(1 + back).to_string();
        let result = |back| json!({"type": "tool_result", "tool_use_id": id(back), "content": number.to_string()});
        match says {
            Says::Question => message("user", &said),
            Says::Blank => message("user", &json!(" ")),
            Says::Instruction => message("system", &said),
            Says::Answers(back) => message("user", &json!([result(back)])),
            Says::AnswersAndText(back) => message("user", &json!([result(back), {"type": "text", "text": said}])),
            Says::Reply => message("assistant", &said),
            Says::BlankReply => message("assistant", &json!("")),
            Says::Asks => {
                self.calls += 1;
                asks(&(self.calls - 1).to_string())
            }
        }
    }

    fn exchange(&mut self, says: Vec<Says>) -> Vec<Message> {
        says.into_iter().map(|says| self.message(says)).collect()
    }
}

fn any_exchange() -> impl Strategy<Value = Vec<Says>> {
    let opening = prop_oneof![
        4 => Just(Says::Question),
        1 => Just(Says::Blank),
        3 => (0..2usize).prop_map(Says::Answers),
        3 => (0..2usize).prop_map(Says::AnswersAndText),
    ];
    let reply = prop_oneof![3 => Just(Says::Reply), 1 => Just(Says::BlankReply), 4 => Just(Says::Asks)];
    (prop::collection::vec(opening, 1..3), prop::bool::weighted(0.2), reply).prop_map(|(mut says, instructs, reply)| {
        if instructs {
            says.extend([Says::Question, Says::Instruction]);
        }
        // The model replies to an instruction.
        says.push(if instructs && reply == Says::BlankReply { Says::Reply } else { reply });
        says
    })
}

fn any_input() -> impl Strategy<Value = Says> {
    prop::sample::select(vec![Says::Question, Says::Answers(0), Says::AnswersAndText(0)])
}

/// Checks that whole turns are sent, and that nothing is sent of turns that were left out.
fn check_kept(trimmer: Chosen, window: &[Message]) -> Result<(), TestCaseError> {
    for (messages, keep) in trimmer.turns() {
        // A message that says nothing, and constant results, are not different in each turn.
        let mut rest = window.iter();
        match keep {
            KeepTurn::Whole => prop_assert!(messages.iter().all(|message| rest.any(|sent| sent == message))),
            KeepTurn::WithoutRounds => {}
            KeepTurn::Nothing => {
                let mut own = messages.iter().filter(|message| !is_constant_reply(message));
                prop_assert!(!own.any(|message| window.contains(message)));
            }
        }
    }
    // The constant replies do not differ either, so each must be one to a message that is sent.
    let replies = (0..window.len()).filter(|at| is_constant_reply(&window[*at]));
    for at in replies {
        prop_assert!(at > 0 && waits_for_reply(&window[at - 1]), "a constant reply to nothing");
    }
    Ok(())
}

#[test]
fn any_choice_of_a_trimmer_is_sent_and_valid() {
    let keep = prop::sample::select(vec![KeepTurn::Whole, KeepTurn::WithoutRounds, KeepTurn::Nothing]);
    let any = (
        prop::collection::vec(any_exchange(), 1..8),
        any_input(),
        prop::collection::vec(keep, 0..8),
        20..100_u64,
        prop::option::weighted(0.3, 0..8_u64),
        any::<bool>(),
    );
    let (provider, trimmed, cases) = (MessagesProvider::new("one"), AtomicUsize::new(0), cases(5_000));
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |((log, input, keep, percent, rounds_start, splits) in any)| {
        let mut writer = Writer::default();
        let log: Vec<Vec<Message>> = log.into_iter().map(|says| writer.exchange(says)).collect();
        let log = if splits { Recorded::log(log.concat()) } else { recorded(log) };
        let calls =
            Calls { rounds_start: rounds_start.unwrap_or_default(), ..Calls::new(&log, writer.message(input)) };
        let trimmer = Chosen::new(keep);
        let Some(plan) = calls.plan(&trimmer, percent) else { return Ok(()) };
        let window = &plan.fit.window;
        let messages: Vec<&str> = window.iter().chain([&calls.input]).map(Message::json).collect();
        let body = format!(r#"{{"model":"claude-opus-5-5","max_tokens":64,"messages":[{}]}}"#, messages.join(","));
        prop_assert_eq!(provider.check(&body), Ok(()), "{}", body);
        prop_assert_eq!(plan.fit.tokens, tokens(window));
        if plan.fit.trimming.by_trimmer {
            check_kept(trimmer, window)?;
            trimmed.fetch_add(1, Relaxed);
        }
    });
    let trimmed = trimmed.into_inner();
    assert!(cases < 1_000 || trimmed * 20 > cases as usize, "only {trimmed} prompts were trimmed");
}
