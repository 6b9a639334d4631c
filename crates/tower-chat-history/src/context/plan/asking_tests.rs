//! Properties of questions in all prompts: none follows another one, or a result, unless a caller sent them so.

use proptest::prelude::*;
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{Exchange, ExchangeId, LoadLimit, Message, Recorded, Role, Seq};

use super::fit_tests::{Policy, any_policy, any_turn, window};
use crate::context::{
    bridge::{is_constant_reply, is_question, waits_for_reply},
    view::{
        View,
        tests::{any_message, calls},
    },
};

/// Exchanges, each with a reply or without one, whose questions and results have texts of their own.
fn any_log() -> impl Strategy<Value = Vec<Recorded>> {
    let exchange = prop_oneof![
        3 => any_turn(),
        2 => prop::collection::vec(any_message(), 1..5),
        1 => Just(vec![Message::user("u")]),
        1 => Just(vec![Message::user("u"), calls(&["x", "y"])]),
        1 => Just(vec![Message::tool("x", "r")]),
        1 => Just(vec![Message::tool("x", "r"), Message::user("u"), Message::assistant("a")]),
        1 => Just(vec![Message::user("u"), Message::user("u"), Message::assistant("")]),
    ];
    prop::collection::vec(exchange, 0..10).prop_map(|exchanges| (0..).zip(exchanges).map(recorded).collect())
}

fn recorded((seq, messages): (u64, Vec<Message>)) -> Recorded {
    let mut own = Vec::with_capacity(messages.len());
    for (at, message) in messages.into_iter().enumerate() {
        let is_named = matches!(message.role(), Role::User | Role::Tool);
        own.push(if is_named { message.with_text(&format!("{seq}.{at}")).unwrap() } else { message });
    }
    let continues = own.first().is_some_and(Message::is_tool_result);
    let mut exchange = Exchange::new(ExchangeId::generate(), own);
    exchange.continues = seq.checked_sub(1).filter(|_| continues).map(Seq::new);
    Recorded::new(Seq::new(seq), exchange)
}

/// Returns the first message that breaks a rule.
fn broken<'m>(prompt: &'m [Message], log: &[Recorded]) -> Option<&'m [Message]> {
    let pairs = prompt.windows(2).find(|pair| {
        let asks = waits_for_reply(&pair[0]) && is_question(&pair[1]);
        asks && !log.iter().any(|recorded| is_of_one_input(pair, &recorded.exchange.messages))
    });
    let begins = prompt.chunks(1).take(1).find(|first| is_constant_reply(&first[0]));
    pairs.or(begins).or_else(|| prompt.chunks(1).find(|message| message[0].is_blank() || !has_objects(&message[0])))
}

/// Returns `true` if a caller sent both messages in one input, and no reply was between them.
fn is_of_one_input(pair: &[Message], messages: &[Message]) -> bool {
    let [first, second] = [&pair[0], &pair[1]].map(|sent| messages.iter().position(|message| message == sent));
    let (Some(first), Some(second)) = (first, second) else { return false };
    first < second && !messages[first..second].iter().any(Message::is_reply)
}

fn has_objects(message: &Message) -> bool {
    type Arguments = serde_json::Map<String, serde_json::Value>;
    message.tool_calls().iter().all(|call| serde_json::from_str::<Arguments>(call.arguments()).is_ok())
}

fn view(log: &[Recorded]) -> View {
    let mut view = View::default();
    log.iter().for_each(|recorded| view.push_exchange(recorded));
    view
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(3_000)))]

    #[test]
    fn no_question_follows_a_question_or_a_result_in_the_view_of_any_log(log in any_log()) {
        let prompt = view(&log).into_messages();
        prop_assert_eq!(broken(&prompt, &log), None, "{:?}", prompt);
    }

    #[test]
    fn the_view_of_a_longer_log_begins_with_the_view_of_the_shorter_one(log in any_log()) {
        let mut longer = View::default();
        for recorded in &log {
            let before = longer.clone();
            longer.push_exchange(recorded);
            // Results can answer calls once more.
            let is_repeated = recorded.exchange.messages.first().is_none_or(Message::is_tool_result);
            prop_assert!(is_repeated || longer.messages().starts_with(before.messages()));
        }
    }

    #[test]
    fn no_question_follows_a_question_or_a_result_in_any_prompt(log in any_log(), policy in any_policy()) {
        let policy: Policy = policy.without_clearing();
        let input = [Message::user("input")];
        let Ok(plan) = policy.plan(&window(&log, None), LoadLimit::default(), &input, true, None) else { return Ok(()) };
        let prompt: Vec<Message> = plan.fit.window.iter().chain(&input).cloned().collect();
        prop_assert_eq!(broken(&prompt, &log), None, "{:?}", prompt);
    }
}
