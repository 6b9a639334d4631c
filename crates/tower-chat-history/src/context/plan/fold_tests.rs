//! Rounds after an attempt has given way, rounds without a reply, and the short way for plain exchanges.

use std::sync::Arc;

use proptest::prelude::*;
use tower_chat_history_core::{
    AnthropicMessages, ChatCompletions, Dialect, Exchange, ExchangeId, Incarnation, Message, OpenAiResponses,
    Positions, Recorded, Revision, Seq, Window,
};

use super::{
    FitError, InputError, LoadedWindow,
    fold::Folded,
    item::{Extent, Item, Round},
    plan_prompt,
    tests::plan_input,
};
use crate::context::bridge::NO_REPLY;

/// Returns the log of these exchanges: the messages of each, and the exchange that it continues.
fn log(dialect: &'static dyn Dialect, exchanges: &[(&[&str], Option<u64>)]) -> Vec<Recorded> {
    let recorded = |(seq, (messages, continues)): (u64, &(&[&str], Option<u64>))| {
        let messages = messages.iter().map(|json| Message::in_dialect(dialect, *json).unwrap());
        let mut exchange = Exchange::new(ExchangeId::generate(), messages);
        exchange.continues = continues.map(Seq::new);
        Recorded::new(Seq::new(seq), exchange)
    };
    (0..).zip(exchanges).map(recorded).collect()
}

/// Returns the exchange that this input continues, and the round of each message before it.
fn rounds(log: &[Recorded], input: &[Message]) -> (Option<Seq>, Vec<Option<Round>>) {
    let mut folded = Folded::of(log, Positions::default());
    folded.drop_attempt_before(input);
    let asked = folded.state().asked();
    (asked, folded.into_items(true).into_iter().map(|item| item.round).collect())
}

const fn round(asked: u64, followed: u64) -> Option<Round> {
    Some(Round { asked: Seq::new(asked), followed: Seq::new(followed) })
}

const QUESTION: &str = r#"{"role":"user","content":"q"}"#;

#[test]
fn calls_stay_a_round_if_a_text_is_between_them_and_the_attempt_that_is_replaced() {
    let call = |id: &str| format!(r#"{{"type":"function_call","call_id":"{id}","name":"f","arguments":"{{}}"}}"#);
    let output = |id: &str| format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"r"}}"#);
    let text = r#"{"type":"message","role":"assistant","content":"t"}"#;
    let (call_a, call_b, output_a, output_b) = (call("a"), call("b"), output("a"), output("b"));
    let mut log = log(
        &OpenAiResponses,
        &[
            (&[QUESTION, &call_a], None),
            (&[&output_a, &call_b], Some(0)),
            // Another reply to the same output.
            (&[&output_a, text], Some(0)),
            (&[&output_b, text], Some(1)),
            (&[&output_b, text], Some(1)),
        ],
    );
    Arc::make_mut(&mut log[3].exchange).incomplete = true;
    let again = Message::in_dialect(&OpenAiResponses, output_b.as_str()).unwrap();
    let (a, b) = (round(0, 1), round(1, 4));
    assert_eq!(rounds(&log[..4], &[again]), (Some(Seq::new(1)), vec![None, a, a, b, None]));
    // The exchange with the repeated call replaces the attempt, too.
    assert_eq!(rounds(&log, &[]), (None, vec![None, a, a, b, None, b, None]));
}

#[test]
fn a_round_before_a_paused_reply_stays_finished_if_the_attempt_to_continue_it_is_replaced() {
    let text = r#"{"role":"assistant","content":"t"}"#;
    let mut log = log(
        &AnthropicMessages,
        &[
            (
                &[QUESTION, r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}"#],
                None,
            ),
            (&[r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}"#, text], Some(0)),
            (&[QUESTION, text], None),
            (&[text], Some(2)),
        ],
    );
    Arc::make_mut(&mut log[2].exchange).finish_reason = Some("pause_turn".into());
    Arc::make_mut(&mut log[3].exchange).incomplete = true;
    let a = round(0, 1);
    assert_eq!(rounds(&log, &[]), (Some(Seq::new(2)), vec![None, a, a, None, None, None]));
}

#[test]
fn an_instruction_belongs_to_the_round_after_it_also_if_the_round_is_a_part_of_the_input() {
    let log = log(
        &AnthropicMessages,
        &[(
            &[
                QUESTION,
                r#"{"role":"system","content":"be brief"}"#,
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}"#,
                QUESTION,
                r#"{"role":"assistant","content":"t"}"#,
            ],
            None,
        )],
    );
    let of_round = round(0, 0);
    assert_eq!(rounds(&log, &[]), (None, vec![None, of_round, of_round, of_round, None, None]));
}

#[test]
fn a_result_belongs_to_the_round_of_its_call_also_if_it_begins_a_reply_with_calls() {
    let call = |ids: &[&str]| {
        let call =
            |id: &&str| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#);
        let calls: Vec<String> = ids.iter().map(call).collect();
        format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","))
    };
    let result = r#"{"role":"tool","tool_call_id":"c0","content":"r"}"#;
    let (one, two, later) = (call(&["c0"]), call(&["c0", "c1"]), call(&["j"]));
    let rounds_of = |calls: &str, reply: &[&str]| {
        let mut log = log(&ChatCompletions, &[(&[QUESTION, calls], None), (reply, None)]);
        Arc::make_mut(&mut log[1].exchange).reply_len = reply.len();
        let (asked, rounds) = rounds(&log, &[]);
        assert_eq!(asked, Some(Seq::new(1)), "the last calls are open");
        rounds
    };
    let (first, second) = (round(0, 1), round(1, 2));
    // The substitute for the result of `c1` is in the round of its call, like the result of `c0`. The question stays if
    // the second round is left out, and so does the constant reply before it.
    assert_eq!(rounds_of(&two, &[result, QUESTION, &later]), [None, first, first, first, None, None, second]);
    assert_eq!(rounds_of(&one, &[result, QUESTION, &later]), [None, first, first, None, second]);
    assert_eq!(rounds_of(&one, &[result, &later]), [None, first, first, second]);
}

#[test]
fn calls_after_a_message_that_follows_a_round_are_a_round_of_their_own_also_in_one_reply() {
    let call = |id: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}"#);
    let calls = format!(r#"{{"role":"assistant","content":[{},{}]}}"#, call("a"), call("b"));
    let result = r#"{"type":"tool_result","tool_use_id":"a","content":"r"}"#;
    let answer = format!(r#"{{"role":"user","content":[{result},{{"type":"text","text":"t"}}]}}"#);
    let later = format!(r#"{{"role":"assistant","content":[{}]}}"#, call("c"));
    let mut log = log(&AnthropicMessages, &[(&[QUESTION, &calls, &answer, &later], None)]);
    Arc::make_mut(&mut log[0].exchange).reply_len = 3;
    let (_, rounds) = rounds(&log, &[]);
    assert_eq!(rounds.last(), Some(&round(0, 1)), "it is open: {rounds:?}");
    assert!(rounds.contains(&round(0, 0)), "the round before it is followed: {rounds:?}");
}

#[test]
fn a_paused_reply_of_which_nothing_is_sent_needs_an_input() {
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"late"}]}"#;
    let (said, blank) = (r#"{"role":"assistant","content":"a"}"#, r#"{"role":"assistant","content":[]}"#);
    let alone: &[(&[&str], Option<u64>)] = &[(&[result, blank], None)];
    for turns in [alone, &[(&[QUESTION, said], None), (&[result, blank], None)]] {
        let mut log = log(&AnthropicMessages, turns);
        Arc::make_mut(&mut log.last_mut().unwrap().exchange).finish_reason = Some("pause_turn".into());
        let window = Window::new(Revision::new(Incarnation::random(), turns.len() as u64), None, log, false);
        let window = LoadedWindow::read(window).unwrap();
        assert!(matches!(plan_prompt(&plan_input(&window, &[])), Err(FitError::Input(InputError::Empty))));
    }
}

const ASKED: [&str; 2] = [
    r#"{"role":"user","content":"q"}"#,
    r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}"#,
];
const RESULT: &str = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#;
const TEXT: &str = r#"{"role":"user","content":"and?"}"#;
const SAID: &str = r#"{"role":"assistant","content":"a"}"#;

/// Returns the roles of the items before a question, or before an input that continues the turn: `u` for a question,
/// `r` for results, `a` for a reply, `-` for the constant one.
fn items(dialect: &'static dyn Dialect, exchanges: &[(&[&str], Option<u64>)], opens_turn: bool) -> (String, Vec<Item>) {
    let log = log(dialect, exchanges);
    let folded = Folded::of(&log, Positions::default());
    let question = Message::in_dialect(dialect, QUESTION).unwrap();
    let input: Vec<Message> = opens_turn.then_some(question).into_iter().collect();
    let items = folded.into_items_before(&input, !opens_turn);
    (items.iter().map(kind).collect(), items)
}

fn kind(item: &Item) -> char {
    match &item.message {
        message if message.json().contains(NO_REPLY) => '-',
        message if message.is_reply() => 'a',
        message if !message.answers().is_empty() => 'r',
        _ => 'u',
    }
}

/// Returns the roles of what a cut keeps.
fn kept(items: &[Item], window: u64, rounds: u64) -> String {
    let extent = Extent { window: Seq::new(window), rounds: Seq::new(rounds) };
    items.iter().filter_map(|item| item.clone().kept(extent)).map(|item| kind(&item)).collect()
}

#[test]
fn a_question_after_a_round_without_a_reply_is_after_a_constant_reply() {
    let kinds = |log: &[(&[&str], Option<u64>)], opens_turn| items(&AnthropicMessages, log, opens_turn).0;
    let asked: (&[&str], Option<u64>) = (&ASKED, None);
    assert_eq!(kinds(&[asked], true), "uar-", "abandoned by the input");
    assert_eq!(kinds(&[asked], false), "ua", "answered by the input");
    assert_eq!(kinds(&[asked, (&[TEXT, SAID], None)], true), "uar-ua", "abandoned in the log");
    let stored: (&[&str], Option<u64>) = (&[RESULT], Some(0));
    assert_eq!(kinds(&[asked, stored], true), "uar-", "stored without a reply");
    assert_eq!(kinds(&[asked, stored], false), "uar", "the input continues it");
    assert_eq!(kinds(&[asked, stored, (&[TEXT, SAID], None)], true), "uar-ua");
    // Everything of a turn is one prompt's input.
    assert_eq!(kinds(&[asked, (&[RESULT, TEXT, SAID], Some(0))], true), "uarua");
    let imported = [ASKED[0], ASKED[1], RESULT, TEXT, SAID];
    assert_eq!(kinds(&[(&imported, None)], true), "uarua");
    assert_eq!(kinds(&[asked, (&[RESULT, SAID], Some(0)), (&[TEXT, SAID], None)], true), "uaraua");
}

#[test]
fn a_question_after_a_question_without_a_reply_is_after_a_constant_reply() {
    let kinds = |log: &[(&[&str], Option<u64>)]| items(&ChatCompletions, log, true).0;
    let blank = r#"{"role":"assistant","content":""}"#;
    assert_eq!(kinds(&[(&[QUESTION, blank], None), (&[QUESTION, SAID], None)]), "u-ua");
    assert_eq!(kinds(&[(&[QUESTION], None), (&[QUESTION, blank], None)]), "u-u-");
    assert_eq!(kinds(&[(&[QUESTION, blank, QUESTION, SAID], None)]), "u-ua", "in one exchange");
    assert_eq!(kinds(&[(&[QUESTION, QUESTION, SAID], None)]), "uua", "what a caller sends stays");
}

#[test]
fn a_constant_reply_stays_without_the_round_before_it() {
    let (kinds, items) = items(&AnthropicMessages, &[(&ASKED, None), (&[TEXT, SAID], None)], true);
    assert_eq!(kinds, "uar-ua");
    assert_eq!([kept(&items, 0, 0), kept(&items, 0, 2), kept(&items, 1, 1)], ["uar-ua", "u-ua", "ua"]);
}

#[test]
fn a_constant_reply_takes_the_place_of_a_round_before_a_question_of_the_same_input() {
    let both = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"text","text":"and?"}]}"#;
    for answer in [&[RESULT, TEXT, SAID][..], &[both, SAID]] {
        let (kinds, items) = items(&AnthropicMessages, &[(&ASKED, None), (answer, Some(0))], true);
        assert!(kinds == "uarua" || kinds == "uara", "{kinds}");
        assert_eq!(kept(&items, 0, 2), "u-ua", "the round is left out");
        assert_eq!(kept(&items, 0, 0), kinds);
    }
}

#[test]
fn a_constant_reply_to_a_round_after_a_reply_belongs_to_the_round() {
    let log: &[(&[&str], Option<u64>)] = &[(&[QUESTION, SAID], None), (&[ASKED[1]], None), (&[TEXT, SAID], None)];
    let (kinds, items) = items(&AnthropicMessages, log, true);
    assert_eq!(kinds, "uaar-ua");
    assert_eq!(kept(&items, 0, 3), "uaua");
}

/// Messages of two dialects, and a blank reply in each.
fn samples() -> [(&'static dyn Dialect, Vec<&'static str>, &'static str); 2] {
    let chat = vec![
        QUESTION,
        r#"{"role":"assistant","content":"a"}"#,
        r#"{"role":"assistant","content":""}"#,
        r#"{"role":"assistant","content":"a","tool_calls":[{"id":"x","function":{"name":"f"}}]}"#,
        r#"{"role":"tool","tool_call_id":"x","content":"r"}"#,
    ];
    let anthropic = vec![
        QUESTION,
        r#"{"role":"system","content":"s"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"r"},{"type":"text","text":"u"}]}"#,
        r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}"#,
    ];
    [
        (&ChatCompletions, chat, r#"{"role":"assistant","content":""}"#),
        (&AnthropicMessages, anthropic, r#"{"role":"assistant","content":[]}"#),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_of_plain_exchanges_has_the_items_of_any_log(
        (dialect, samples, blank) in prop::sample::select(Vec::from(samples())),
        log in prop::collection::vec(
            (
                prop::collection::vec(any::<prop::sample::Index>(), 1..4),
                prop::sample::select(vec!["stop", "pause_turn"]),
                prop::bool::weighted(0.1),
                prop::bool::weighted(0.3),
            ),
            0..8,
        ),
        input in prop::option::of(any::<prop::sample::Index>()),
        continues in any::<bool>(),
    ) {
        let message = |index: &prop::sample::Index| Message::in_dialect(dialect, *index.get(&samples)).unwrap();
        let recorded = |(seq, (messages, finish_reason, incomplete, continues)): (u64, &(Vec<_>, &str, bool, bool))| {
            let mut exchange = Exchange::new(ExchangeId::generate(), messages.iter().map(message));
            exchange.finish_reason = Some((*finish_reason).to_owned());
            exchange.incomplete = *incomplete;
            exchange.continues = (seq > 0 && *continues).then(|| Seq::new(seq - 1));
            Recorded::new(Seq::new(seq), exchange)
        };
        let log: Vec<Recorded> = (0..).zip(&log).map(recorded).collect();
        // A blank element at the end of a reply is not sent, but the exchange is not plain with it.
        let with_blank_reply = |recorded: &Recorded| {
            let mut recorded = recorded.clone();
            if !recorded.exchange.reply().is_empty() {
                let exchange = Arc::make_mut(&mut recorded.exchange);
                exchange.messages.push(Message::in_dialect(dialect, blank).unwrap());
                exchange.reply_len += 1;
            }
            recorded
        };
        let not_plain: Vec<Recorded> = log.iter().map(with_blank_reply).collect();
        let input: Vec<Message> = input.iter().map(message).collect();
        let items = |log: &[Recorded]| {
            let mut folded = Folded::of(log, Positions::default());
            folded.drop_attempt_before(&input);
            if !continues {
                folded.close();
            }
            let parts = |Item { seq, message, round, rest, is_reply, is_settled, .. }: Item| {
                (seq, message, round, rest, is_reply, is_settled)
            };
            folded.into_items(continues).into_iter().map(parts).collect::<Vec<_>>()
        };
        prop_assert_eq!(items(&log), items(&not_plain));
    }
}
