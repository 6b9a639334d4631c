//! Calls that a provider executes itself, in plans.

use tower_chat_history_core::{
    AnthropicMessages, Cut, Cuts, Exchange, ExchangeId, Incarnation, Message, Recorded, Revision, Seq, Window,
};

use crate::context::{
    budget::{CallLimits, PromptTokens, Watermarks},
    plan::{CallBudget, FitBudget, FitError, History, InputError, LoadedWindow, Plan, PlanInput, plan_prompt},
};

const USER: &str = r#"{"role":"user","content":"u"}"#;
const RESULT: &str = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#;
const CALL: &str = r#"{"type":"tool_use","id":"x","name":"f","input":{}}"#;
const TEXT: &str = r#"{"type":"text","text":"so"}"#;
const SEARCH: &str = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#;
const FOUND: &str = r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[]}"#;

/// The constant reply in place of one that is left out.
const NO_REPLY: &str = r#"{"role":"assistant","content":"[no reply]"}"#;

fn reply(blocks: &[&str]) -> String {
    format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","))
}

fn message(json: &str) -> Message {
    Message::in_dialect(&AnthropicMessages, json).unwrap()
}

/// An exchange of a question or a result, and a reply.
fn exchange(input: &[&str], blocks: &[&str], continues: Option<u64>, finish_reason: &str) -> Exchange {
    let messages = input.iter().map(|json| message(json)).chain([message(&reply(blocks))]);
    let mut exchange = Exchange::new(ExchangeId::generate(), messages).with_reply_len(1);
    exchange.continues = continues.map(Seq::new);
    exchange.finish_reason = Some(finish_reason.to_owned());
    exchange
}

fn window(log: Vec<Exchange>, cut: Cut) -> LoadedWindow {
    let log: Vec<Recorded> = (0..).map(Seq::new).zip(log).map(|(seq, it)| Recorded::new(seq, it)).collect();
    let revision = Revision::new(Incarnation::random(), log.len() as u64);
    let window = LoadedWindow::read(Window::new(revision, None, log, false)).unwrap();
    LoadedWindow { cuts: Some(Cuts::new(cut)), ..window }
}

fn planned(window: &LoadedWindow, input: &[&str], budget: Option<FitBudget<'_>>) -> Result<Plan, FitError> {
    let input: Vec<Message> = input.iter().map(|json| message(json)).collect();
    plan_prompt(&PlanInput { budget, ..PlanInput::new(History::Window(window), &input) })
}

/// Returns the messages of a prompt without its input.
fn sent(plan: &Plan) -> Vec<&str> {
    plan.fit.window.iter().map(Message::json).collect()
}

#[test]
fn a_paused_reply_is_continued_without_input() {
    let log = window(vec![exchange(&[USER], &[TEXT, SEARCH], None, "pause_turn")], Cut::default());
    let plan = planned(&log, &[], None).unwrap();
    assert_eq!((plan.continues, sent(&plan)), (Some(Seq::FIRST), vec![USER, &reply(&[TEXT, SEARCH])]));
    let plan = planned(&log, &[USER], None).unwrap();
    assert_eq!((plan.continues, plan.superseded, sent(&plan)), (None, 0, vec![USER, &reply(&[TEXT])]));
}

#[test]
fn only_a_paused_reply_is_continued_without_input() {
    for (blocks, reason, is_paused) in [
        (&[TEXT][..], "pause_turn", true),
        (&[SEARCH, FOUND, TEXT], "pause_turn", true),
        (&[TEXT, SEARCH], "max_tokens", false),
        (&[TEXT], "end_turn", false),
    ] {
        let log = window(vec![exchange(&[USER], blocks, None, reason)], Cut::default());
        let outcome = planned(&log, &[], None);
        let is_refused = matches!(outcome, Err(FitError::Input(InputError::Empty)));
        assert_eq!((outcome.is_ok(), is_refused), (is_paused, !is_paused), "{reason}: {blocks:?}");
    }
}

#[test]
fn a_resumed_reply_that_broke_off_is_replaced_by_the_next_attempt() {
    let mut attempt = exchange(&[], &[TEXT], Some(0), "");
    (attempt.incomplete, attempt.finish_reason) = (true, None);
    let paused = exchange(&[USER], &[SEARCH], None, "pause_turn");
    let log = window(vec![paused.clone(), attempt.clone()], Cut::default());
    let plan = planned(&log, &[], None).unwrap();
    assert_eq!((plan.continues, sent(&plan)), (Some(Seq::FIRST), vec![USER, &reply(&[SEARCH])]));
    let log = window(vec![paused, attempt, exchange(&[], &[FOUND, TEXT], Some(0), "end_turn")], Cut::default());
    let plan = planned(&log, &[USER], None).unwrap();
    assert_eq!(sent(&plan), [USER, &reply(&[SEARCH]), &reply(&[FOUND, TEXT])]);
}

#[test]
fn a_call_next_to_one_of_the_program_stays_if_the_results_come_alone() {
    let log = window(vec![exchange(&[USER], &[SEARCH, CALL], None, "tool_use")], Cut::default());
    let with_text = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"text","text":"u"}]}"#;
    for (input, blocks) in
        [(&[RESULT][..], &[SEARCH, CALL][..]), (&[with_text], &[CALL]), (&[RESULT, USER], &[CALL]), (&[USER], &[CALL])]
    {
        let plan = planned(&log, input, None).unwrap();
        assert_eq!(plan.fit.window[1].json(), reply(blocks), "{input:?}");
    }
}

#[test]
fn a_reply_with_the_result_leaves_the_prompt_together_with_the_round_of_the_call() {
    let log = || {
        vec![
            exchange(&[USER], &[SEARCH, CALL], None, "tool_use"),
            exchange(&[RESULT], &[FOUND, TEXT], Some(0), "end_turn"),
            exchange(&[USER], &[TEXT], None, "end_turn"),
        ]
    };
    let cost = |_: &Message| 1;
    let call = CallBudget { limits: CallLimits::NONE, sizes: PromptTokens::default() };
    let watermarks = Watermarks::default();
    let budget = FitBudget { call, watermarks, clear: None, trimmer: None, stores: true, cost: &cost };
    for rounds_start in 0..4 {
        let mut cut = Cut::default();
        cut.rounds_start = Seq::new(rounds_start);
        for budget in [None, Some(budget)] {
            let plan = planned(&window(log(), cut.clone()), &[USER], budget).unwrap();
            let all = [USER, &reply(&[SEARCH, CALL]), RESULT, &reply(&[FOUND, TEXT]), USER, &reply(&[TEXT])];
            let without = [USER, NO_REPLY, USER, &reply(&[TEXT])];
            let expected = if rounds_start < 3 { &all[..] } else { &without[..] };
            assert_eq!(sent(&plan), expected, "rounds from {rounds_start} on");
        }
    }
}

#[test]
fn an_instruction_is_left_out_with_the_whole_reply_that_it_needs() {
    let system = r#"{"role":"system","content":"Be brief."}"#;
    let sealed = r#"{"type":"later","signature":"s"}"#;
    for (blocks, expected) in [
        (&[sealed][..], vec![USER, NO_REPLY]),
        (&[sealed, TEXT], vec![USER, system, r#"{"role":"assistant","content":[{"type":"text","text":"so"}]}"#]),
        (&[SEARCH], vec![USER, NO_REPLY]),
    ] {
        let log = window(vec![exchange(&[USER, system], blocks, None, "end_turn")], Cut::default());
        assert_eq!(sent(&planned(&log, &[USER], None).unwrap()), expected, "{blocks:?}");
    }
}
