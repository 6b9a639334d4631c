//! Properties of prompts without old reasoning, over whole conversations.

use proptest::prelude::*;
use serde_json::json;
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{
    Compat, Cut, Cuts, Exchange, ExchangeId, Incarnation, Message, Origin, ReasoningField, Recorded, Revision, Seq,
    Window,
};
use tower_chat_history_test::check_compat;

use super::{
    CallBudget, Conditions, FitBudget, History, LoadedWindow, Plan, PlanInput, SentPrompt,
    adapt_tests::{any_compat, any_log, log},
    explain::{ExplainInput, explain},
    plan_prompt, provenance,
};
use crate::context::{
    bridge::NO_REPLY,
    budget::{CallLimits, PromptTokens, Watermarks},
    view::tests::breaks_the_rules,
};

/// The form of a reply's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    None,
    Field,
    Inline,
    /// Inline, and nothing else.
    Only,
    Signed,
}

/// A turn: the reasoning of each of its replies. All but the last one have a call.
type Turn = Vec<Form>;

fn any_turns() -> impl Strategy<Value = Vec<Turn>> {
    let form = prop::sample::select(vec![Form::None, Form::Field, Form::Inline, Form::Only, Form::Signed]);
    prop::collection::vec(prop::collection::vec(form, 1..4), 1..14)
}

const THOUGHT: &str = "The user may want to know the color of the sky, which is blue.";

fn reply(form: Form, number: usize, has_call: bool) -> Message {
    let text = format!("answer {number}");
    let inline = format!("<think>{THOUGHT}</think>\n");
    let only = format!("<think>{THOUGHT} {number}</think>\n");
    let mut reply = json!({"role": "assistant", "content": text});
    match form {
        Form::None => {}
        Form::Field => reply["reasoning_content"] = THOUGHT.into(),
        Form::Inline => reply["content"] = format!("{inline}{text}").into(),
        Form::Only => reply["content"] = only.into(),
        Form::Signed => {
            reply["reasoning_content"] = THOUGHT.into();
            reply["extra_content"] = json!({"google": {"thought_signature": "signed"}});
        }
    }
    if has_call {
        let call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        reply["tool_calls"] = json!([call]);
    }
    Message::from_json(reply.to_string()).unwrap()
}

fn cost(message: &Message) -> u64 {
    message.bytes() as u64
}

/// A conversation with a model of this context window.
struct Talk {
    old_reasoning: Option<u32>,
    compat: Compat,
    origin: Origin,
    context: u64,
    log: Vec<Recorded>,
    cut: Option<Cut>,
    /// The last prompt, unless it was made for one call only.
    last: Option<Vec<Message>>,
}

impl Talk {
    fn new(old_reasoning: Option<u32>, context: u64) -> Self {
        Self {
            old_reasoning,
            compat: Compat::new(),
            origin: Origin::unknown().provider("p"),
            context,
            log: Vec::new(),
            cut: None,
            last: None,
        }
    }

    fn conditions(&self) -> Conditions<'_> {
        Conditions {
            origin: &self.origin,
            compat: &self.compat,
            old_reasoning: self.old_reasoning,
            ..Conditions::unknown()
        }
    }

    fn plan(&self, input: &[Message]) -> Plan {
        let revision = Revision::new(Incarnation::random(), self.log.len() as u64);
        let window = LoadedWindow::read(Window::new(revision, None, self.log.clone(), false)).unwrap();
        let window = LoadedWindow { cuts: self.cut.clone().map(Cuts::new), ..window };

        let limits =
            CallLimits { context: self.context, prompt: self.context, reserve: 0, least_reply: None, ratio: 1.0 };
        let sizes = PromptTokens { input: input.iter().map(cost).sum(), ..PromptTokens::default() };
        let budget = FitBudget {
            call: CallBudget { limits, sizes },
            watermarks: Watermarks::default(),
            clear: None,
            trimmer: None,
            stores: true,
            cost: &cost,
        };
        let budget = Some(budget).filter(|_| self.context < u64::MAX);
        let conditions = self.conditions();
        plan_prompt(&PlanInput { conditions, budget, ..PlanInput::new(History::Window(&window), input) }).unwrap()
    }

    /// Makes a call, and checks everything that holds for any prompt.
    fn call(&mut self, input: Message, reply: Message) -> Result<Plan, TestCaseError> {
        let input = [input];
        let plan = self.plan(&input);
        let sent = [&plan.fit.window[..], &input].concat();
        prop_assert_eq!(breaks_the_rules(&sent), None);
        self.check_signed(&sent)?;

        let turn = if plan.continues.is_some() { self.turn_start() } else { self.log.len() };
        if self.old_reasoning == Some(0) {
            let old = self.replies_in(&sent, 0..turn);
            prop_assert!(old.iter().all(|reply| reply.without_reasoning().is_none()), "all of it has left");
        }
        let goes_on = plan.fit.cut.is_none() && (self.old_reasoning != Some(0) || plan.continues.is_some());
        if let Some(last) = self.last.take().filter(|_| goes_on && !plan.fit.for_this_call) {
            prop_assert!(sent.starts_with(&last), "the prompt begins with the one before");
        }
        self.last = (!plan.fit.for_this_call).then(|| sent.clone());

        let next = Some(Seq::new(self.log.len() as u64));
        let prompt = SentPrompt { messages: &sent, under: plan.fit.sent_under, next, tokens: None };
        let provenance = provenance(self.conditions(), prompt);
        let mut exchange = Exchange::new(ExchangeId::generate(), input.into_iter().chain([reply]));
        (exchange.continues, exchange.provenance) = (plan.continues, Some(provenance));
        self.log.push(Recorded::new(Seq::new(self.log.len() as u64), exchange));
        if let Some(cut) = &plan.fit.cut {
            let before = self.cut.clone().unwrap_or_default();
            prop_assert!(!cut.goes_back_from(before.positions));
            self.cut = Some(cut.clone());
        }
        self.check_explained()?;
        Ok(plan)
    }

    /// Returns the index of the exchange that opened the newest turn.
    fn turn_start(&self) -> usize {
        self.log.iter().rposition(|recorded| recorded.exchange.opens_turn()).unwrap()
    }

    /// Returns the messages of a prompt that say what replies of these exchanges say.
    fn replies_in(&self, sent: &[Message], exchanges: std::ops::Range<usize>) -> Vec<Message> {
        let replies = self.log[exchanges].iter().flat_map(|recorded| recorded.exchange.reply());
        let texts: Vec<String> = replies.map(answer).collect();
        sent.iter().filter(|message| message.is_reply() && texts.contains(&answer(message))).cloned().collect()
    }

    /// A signed reply is sent exactly as the log has it.
    fn check_signed(&self, sent: &[Message]) -> Result<(), TestCaseError> {
        for message in sent.iter().filter(|message| message.json().contains("signed")) {
            let mut log = self.log.iter().flat_map(|recorded| &recorded.exchange.messages);
            prop_assert!(log.any(|logged| logged == message), "{}", message.json());
        }
        for recorded in &self.log {
            for reply in recorded.exchange.reply().iter().filter(|reply| reply.bound().to_origin) {
                let is_sent_otherwise =
                    |message: &Message| message.is_reply() && answer(message) == answer(reply) && message != reply;
                prop_assert!(!sent.iter().any(is_sent_otherwise), "{}", reply.json());
            }
        }
        Ok(())
    }

    /// The prompt of the last reply is made again from the log, whatever the options are now.
    fn check_explained(&self) -> Result<(), TestCaseError> {
        let explained = self.log.last().unwrap();
        let start = explained.exchange.provenance.as_ref().unwrap().cut.window_start;
        let (log, _) = self.log.split_at(self.log.len() - 1);
        let first = log.iter().position(|recorded| recorded.seq >= start).unwrap_or(log.len());
        let rows = explain(&ExplainInput {
            explained,
            exchanges: &log[first..],
            translated: &[],
            first: Seq::FIRST,
            summary: None,
            compat: &self.compat,
            clear: None,
            cost: &cost,
        });
        prop_assert!(rows.is_ok(), "{:?}", rows);
        Ok(())
    }

    /// Holds these turns. Returns the plans.
    fn hold(&mut self, turns: &[Turn]) -> Result<Vec<Plan>, TestCaseError> {
        let mut plans = Vec::new();
        let mut number = 0;
        for turn in turns {
            let mut input = Message::user("question");
            for (at, form) in turn.iter().enumerate() {
                number += 1;
                let has_call = at + 1 < turn.len();
                plans.push(self.call(input, reply(*form, number, has_call))?);
                input = Message::tool("x", "result");
            }
        }
        Ok(plans)
    }
}

/// Returns the text of a reply after its reasoning, or the reasoning if there is nothing else. Each reply has another
/// one.
fn answer(reply: &Message) -> String {
    let text = reply.text();
    text.trim_end().rsplit('\n').next().unwrap_or_default().to_owned()
}

/// A window without a limit.
const UNLIMITED: u64 = u64::MAX;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    /// Between compactions, prompts begin with each other. Signed reasoning stays as it is.
    #[test]
    fn reasoning_leaves_at_compactions_only(turns in any_turns(), keep in 0u32..4, context in 1_500u64..6_000) {
        Talk::new(Some(keep), context).hold(&turns)?;
    }

    #[test]
    fn without_a_budget_only_the_reasoning_of_turns_that_ended_leaves(turns in any_turns(), keep in 0u32..4) {
        let mut talk = Talk::new(Some(keep), UNLIMITED);
        let plans = talk.hold(&turns)?;
        prop_assert!(talk.cut.is_none());
        let nothing_left = plans.iter().all(|plan| plan.fit.sent_under.thoughts_from == Seq::FIRST);
        prop_assert!(nothing_left || keep == 0);
    }

    #[test]
    fn without_the_option_nothing_leaves(turns in any_turns(), context in 1_500u64..6_000) {
        let plans = Talk::new(None, context).hold(&turns)?;
        prop_assert!(plans.iter().all(|plan| plan.fit.sent_under.thoughts_from == Seq::FIRST));
    }

    /// Any reader accepts prompts without old reasoning.
    #[test]
    fn the_reader_accepts_the_prompt(turns in any_log(), compat in any_compat()) {
        let log = log(&turns);
        let talk = Talk { compat, origin: Origin::unknown().provider("reader"), log, ..Talk::new(Some(0), UNLIMITED) };
        let question = Message::user("question");
        let sent = [talk.plan(std::slice::from_ref(&question)).fit.window, vec![question]].concat();
        prop_assert_eq!(check_compat(&sent, true, &compat), Ok(()));
    }
}

fn texts(plan: &Plan) -> Vec<String> {
    plan.fit.window.iter().filter(|message| message.is_reply()).map(|message| message.text().into_owned()).collect()
}

#[test]
fn the_reasoning_of_a_turn_leaves_when_the_next_question_comes() {
    let mut talk = Talk::new(Some(0), UNLIMITED);
    let plans = talk.hold(&[vec![Form::Inline, Form::Inline], vec![Form::Only], vec![Form::None]]).unwrap();
    let whole = |number| format!("<think>{THOUGHT}</think>\nanswer {number}");
    assert_eq!(texts(&plans[1]), [whole(1)], "within the turn");
    assert_eq!(texts(&plans[2]), ["answer 1", "answer 2"]);
    assert_eq!(texts(&plans[3]), ["answer 1", "answer 2", NO_REPLY], "nothing else was said");
}

#[test]
fn a_compaction_leaves_the_reasoning_of_the_newest_turns() {
    let turns = vec![vec![Form::Field]; 40];
    let mut talk = Talk::new(Some(2), 3_000);
    let plans = talk.hold(&turns).unwrap();
    let compacted: Vec<usize> = (0..plans.len()).filter(|at| plans[*at].fit.cut.is_some()).collect();
    assert!(compacted.len() > 1 && compacted.windows(2).all(|pair| pair[0] + 1 < pair[1]), "{compacted:?}");
    for at in compacted {
        let plan = &plans[at];
        assert_eq!(plan.fit.sent_under.thoughts_from, Seq::new(at as u64 - 2));
        let thoughts = plan.fit.window.iter().filter(|message| message.json().contains(THOUGHT)).count();
        assert_eq!(thoughts, 2);
        assert!(plan.fit.trimming.left_out_reasoning);
    }
}

#[test]
fn nothing_else_leaves_if_old_reasoning_is_enough() {
    let mut talk = Talk::new(Some(1), 3_000);
    let plans = talk.hold(&vec![vec![Form::Field]; 40]).unwrap();
    let first = plans.iter().find(|plan| plan.fit.cut.is_some()).unwrap();
    assert!(first.fit.trimming.left_out_reasoning && !first.fit.trimming.left_out_turns);
    assert_eq!(first.fit.sent_under.window_start, Seq::FIRST);
}

#[test]
fn the_tokens_that_were_saved_and_sent_again_are_counted() {
    let saved = r#""reasoning_content":"","#.len() as u64 + THOUGHT.len() as u64;
    let mut talk = Talk::new(Some(0), 1 << 20);
    let plans = talk.hold(&vec![vec![Form::Field]; 3]).unwrap();
    let counts = |plan: &Plan| (plan.fit.thoughts.saved, plan.fit.thoughts.sent_again);
    assert_eq!([0, 1, 2].map(|at| counts(&plans[at])), [(0, 0), (saved, 0), (2 * saved, 0)]);

    let mut talk = Talk::new(Some(1), 1 << 20);
    let plans = talk.hold(&vec![vec![Form::Field]; 3]).unwrap();
    assert_eq!([0, 1, 2].map(|at| counts(&plans[at])), [(0, 0), (0, saved), (0, 2 * saved)], "no compaction was due");
}

#[test]
fn a_reader_that_requires_reasoning_gets_that_of_calls() {
    for required in [ReasoningField::Required, ReasoningField::RequiredOfOthers] {
        let mut talk = Talk::new(Some(0), UNLIMITED);
        talk.compat = Compat::new().reasoning(required);
        talk.hold(&[vec![Form::Field, Form::Field]]).unwrap();
        let plan = talk.plan(&[Message::user("question")]);
        let has_thought = |message: &&Message| message.json().contains(THOUGHT);
        let with: Vec<&Message> = plan.fit.window.iter().filter(has_thought).collect();
        assert_eq!(with.len(), 1);
        assert_eq!(with[0], &talk.log[0].exchange.reply()[0]);
    }
}
