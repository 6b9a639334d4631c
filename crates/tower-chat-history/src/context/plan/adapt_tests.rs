//! Properties of prompts for readers that accept less than the log has. The predicates are those of the mock models.

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{
    CallIdForm, Compat, Exchange, ExchangeId, Incarnation, Message, Origin, Positions, PromptDigests, Provenance,
    ReasoningField, Recorded, Revision, Role, Seq, SystemMessages, Window,
};
use tower_chat_history_test::check_compat;

use super::{Conditions, LoadedWindow, plan_prompt, reasoning::RENDERER, tests::plan_input};
use crate::context::{
    bridge::NO_REPLY,
    view::{NO_TEXT, View},
};

/// The parts of a log. Each text is told apart by its number.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    input: Vec<Said>,
    reply: Reply,
    /// The number of results, if the reply has calls. The others are abandoned.
    results: usize,
    maker: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
enum Said {
    User,
    Parts,
    System,
    Developer,
}

#[derive(Clone, Debug)]
enum Reply {
    None,
    Text(&'static str),
    Calls(Vec<&'static str>, &'static str),
}

/// Fields that some makers add to a reply.
const FIELDS: [&str; 6] = [
    "{}",
    r#"{"reasoning_content":"hm"}"#,
    r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#,
    r#"{"refusal":null,"annotations":[],"audio":null}"#,
    r#"{"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"}],"x":1}"#,
    r#"{"function_call":null}"#,
];

const IDS: [&str; 6] = [
    "a1B2c3D4e",
    "call_x",
    "functions.f:0",
    "call_0123456789012345678901234567890123456789",
    "x__thought__0123456789012345678901234567890123456789012345678901234567890123456789",
    "ä",
];

fn any_turn() -> impl Strategy<Value = Turn> {
    let said =
        prop_oneof![6 => Just(Said::User), 2 => Just(Said::Parts), 1 => Just(Said::System), 1 => Just(Said::Developer)];
    let fields = || prop::sample::select(FIELDS.to_vec());
    let reply = prop_oneof![
        1 => Just(Reply::None),
        4 => fields().prop_map(Reply::Text),
        4 => (prop::sample::subsequence(IDS.to_vec(), 1..=3), fields()).prop_map(|(ids, fields)| Reply::Calls(ids, fields)),
    ];
    let maker = prop::sample::select(vec![None, Some("reader"), Some("other")]);
    (prop::collection::vec(said, 0..=2), reply, 0..=3_usize, maker).prop_map(|(input, reply, results, maker)| Turn {
        input,
        reply,
        results,
        maker,
    })
}

pub(super) fn any_log() -> impl Strategy<Value = Vec<Turn>> {
    prop::collection::vec(any_turn(), 0..8)
}

pub(super) fn any_compat() -> impl Strategy<Value = Compat> {
    let system = prop::sample::select(vec![SystemMessages::Anywhere, SystemMessages::First, SystemMessages::Never]);
    let reasoning = prop::sample::select(vec![
        ReasoningField::OfMaker,
        ReasoningField::RequiredOfOthers,
        ReasoningField::Required,
        ReasoningField::Refused,
    ]);
    let ids = prop::sample::select(vec![
        CallIdForm::Any,
        CallIdForm::AtMost64,
        CallIdForm::Plain64,
        CallIdForm::Plain40,
        CallIdForm::Alphanumeric9,
    ]);
    (system, reasoning, ids, any::<[bool; 6]>()).prop_map(|(system, reasoning, ids, flags)| {
        let mut compat = Compat::new().system(system).reasoning(reasoning).call_ids(ids);
        let [no_developer, alternates, begins_with_user, text_content, plain_fields, single_calls] = flags;
        compat.no_developer = no_developer;
        compat.alternates = alternates;
        compat.begins_with_user = begins_with_user;
        compat.text_content = text_content;
        compat.plain_fields = plain_fields;
        compat.single_calls = single_calls;
        compat
    })
}

fn message(value: Value, more: &str) -> Message {
    let mut value = value;
    let more: Value = serde_json::from_str(more).unwrap();
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Message::from_json(value.to_string()).unwrap()
}

/// Returns the log.
pub(super) fn log(turns: &[Turn]) -> Vec<Recorded> {
    let mut log: Vec<Recorded> = Vec::new();
    let mut number = 0;
    let mut text = || {
        number += 1;
        format!("t{number}")
    };
    let mut push = |messages: Vec<Message>, replies: usize, maker: Option<&str>| {
        let mut exchange = Exchange::new(ExchangeId::generate(), messages).with_reply_len(replies);
        exchange.provenance = maker.map(|maker| {
            let origin = Origin::unknown().provider(maker);
            Provenance::new(RENDERER, Positions::default(), PromptDigests::default(), origin)
        });
        log.push(Recorded::new(Seq::new(log.len() as u64), exchange));
    };

    for Turn { input, reply, results, maker } in turns {
        let mut messages: Vec<Message> = Vec::new();
        for said in input {
            messages.push(match said {
                Said::User => Message::user(text()),
                Said::Parts => {
                    let parts = json!([{"type": "text", "text": text()}, {"type": "text", "text": text()}]);
                    message(json!({"role": "user", "content": parts}), "{}")
                }
                Said::System => Message::system(text()),
                Said::Developer => Message::developer(text()),
            });
        }
        match reply {
            Reply::None => push(messages, 0, None),
            Reply::Text(fields) => {
                messages.push(message(json!({"role": "assistant", "content": text()}), fields));
                push(messages, 1, *maker);
            }
            Reply::Calls(ids, fields) => {
                let call = |id: &&str| json!({"id": id, "type": "function", "index": 0, "function": {"name": "f", "arguments": "{}"}});
                let calls: Vec<Value> = ids.iter().map(call).collect();
                let mut asked = message(json!({"role": "assistant", "content": text(), "tool_calls": calls}), fields);
                if *maker == Some("reader") {
                    asked = asked.with_field("reasoning_content", "\"own\"").unwrap();
                }
                messages.push(asked);
                push(messages, 1, *maker);

                let results: Vec<Message> =
                    ids.iter().rev().take(*results).map(|id| Message::tool(id, text())).collect();
                if results.len() == ids.len() {
                    push([results, vec![Message::assistant(text())]].concat(), 1, *maker);
                } else if !results.is_empty() {
                    push(results, 0, None);
                }
            }
        }
    }
    log
}

fn planned(log: &[Recorded], input: &[Message], compat: &Compat) -> Option<Vec<Message>> {
    let revision = Revision::new(Incarnation::random(), log.len() as u64);
    let window = LoadedWindow::read(Window::new(revision, None, log.to_vec(), false)).unwrap();
    let origin = Origin::unknown().provider("reader");
    let conditions = Conditions { origin: &origin, compat, ..Conditions::unknown() };
    Some(plan_prompt(&super::PlanInput { conditions, ..plan_input(&window, input) }).ok()?.fit.window)
}

/// Returns the prompt of a question after the log.
fn prompt(log: &[Recorded], compat: &Compat) -> Vec<Message> {
    let question = Message::user("question");
    let mut prompt = planned(log, std::slice::from_ref(&question), compat).unwrap();
    prompt.push(question);
    prompt
}

/// Returns everything that messages say, except the constant texts: the texts in order, then the results.
fn said(messages: &[Message]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut results = Vec::new();
    for message in messages {
        let parts: Vec<String> =
            message.texts().iter().flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let own = parts.into_iter().filter(|text| text != NO_REPLY && text != NO_TEXT);
        if message.is_tool_result() {
            results.extend(own);
        } else {
            texts.extend(own);
        }
        texts.extend(message.tool_calls().iter().map(|call| format!("{}({})", call.name(), call.arguments())));
    }
    results.sort();
    [texts, results].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(400)))]

    #[test]
    fn the_reader_accepts_the_prompt(turns in any_log(), compat in any_compat()) {
        let prompt = prompt(&log(&turns), &compat);
        prop_assert_eq!(check_compat(&prompt, true, &compat), Ok(()), "{:?}", json(&prompt));
    }

    #[test]
    fn nothing_that_was_said_is_lost_or_moved(turns in any_log(), compat in any_compat()) {
        let log = log(&turns);
        let mut view = View::default();
        log.iter().for_each(|recorded| view.push_exchange(recorded));
        view.close();
        let mut whole = view.messages().to_vec();
        whole.push(Message::user("question"));
        prop_assert_eq!(said(&prompt(&log, &compat)), said(&whole));
    }

    #[test]
    fn prompts_for_one_reader_begin_with_each_other(turns in any_log(), compat in any_compat()) {
        let log = log(&turns);
        for end in 0..log.len() {
            let input = log[end].exchange.input();
            // The results of an input are sent as they are, so their calls stay together until the results are stored.
            if compat.single_calls && input.iter().any(Message::is_tool_result) {
                continue;
            }
            let Some(before) = planned(&log[..end], input, &compat) else { continue };
            let after = prompt(&log[..=end], &compat);
            prop_assert!(after.starts_with(&before), "{:?} {:?}", json(&before), json(&after));
        }
    }

    #[test]
    fn a_prompt_is_made_again_in_the_same_way(turns in any_log(), compats in prop::collection::vec(any_compat(), 1..3)) {
        let log = log(&turns);
        let first: Vec<_> = compats.iter().map(|compat| prompt(&log, compat)).collect();
        let again: Vec<_> = compats.iter().map(|compat| prompt(&log, compat)).collect();
        prop_assert_eq!(&first, &again);
        // The ids of exchanges differ, and no message has a form that is kept.
        let anew: Vec<_> = compats.iter().map(|compat| prompt(&self::log(&turns), compat)).collect();
        prop_assert_eq!(&first, &anew);
    }

    #[test]
    fn a_maker_gets_its_own_messages_as_they_are(turns in any_log()) {
        // Signed reasoning depends on the prompt, too.
        let is_unsigned = |turn: &Turn| !format!("{turn:?}").contains("signature");
        let own = turns.into_iter().filter(is_unsigned).map(|turn| Turn { maker: Some("reader"), ..turn });
        let own: Vec<Turn> = own.collect();
        let log = log(&own);
        let question = Exchange::new(ExchangeId::generate(), [Message::user("question")]);
        let question = Recorded::new(Seq::new(log.len() as u64), question);
        let mut view = View::default();
        log.iter().chain([&question]).for_each(|recorded| view.push_exchange(recorded));
        prop_assert_eq!(prompt(&log, &Compat::new()), view.into_messages());
    }
}

fn json(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(Message::json).collect()
}

fn with(mut compat: Compat, change: impl FnOnce(&mut Compat)) -> Compat {
    change(&mut compat);
    compat
}

/// Without one of the rules, the predicate of that rule fails for some log.
#[test]
fn a_rule_that_is_not_applied_is_noticed() {
    let all = Compat::new()
        .system(SystemMessages::First)
        .no_developer()
        .alternates()
        .begins_with_user()
        .text_content()
        .plain_fields()
        .call_ids(CallIdForm::Alphanumeric9)
        .single_calls();
    let none = Compat::new();
    let rules = [
        ("system", with(all, |it| it.system = SystemMessages::Anywhere), none.system(SystemMessages::First)),
        ("never", with(all, |it| it.system = SystemMessages::First), none.system(SystemMessages::Never)),
        (
            "no_developer",
            with(all, |it| {
                it.no_developer = false;
                it.system = SystemMessages::Anywhere;
            }),
            none.no_developer(),
        ),
        ("alternates", with(all, |it| it.alternates = false), none.alternates()),
        (
            "begins_with_user",
            with(all, |it| {
                it.begins_with_user = false;
                it.alternates = false;
            }),
            none.begins_with_user(),
        ),
        ("text_content", with(all, |it| it.text_content = false), none.text_content()),
        ("plain_fields", with(all, |it| it.plain_fields = false), none.plain_fields()),
        ("required", all, none.reasoning(ReasoningField::Required)),
        ("refused", with(all, |it| it.plain_fields = false), none.reasoning(ReasoningField::Refused)),
        ("call_ids", with(all, |it| it.call_ids = CallIdForm::Any), none.call_ids(CallIdForm::Alphanumeric9)),
        ("at_most_64", with(all, |it| it.call_ids = CallIdForm::Any), none.call_ids(CallIdForm::AtMost64)),
        ("plain_64", with(all, |it| it.call_ids = CallIdForm::AtMost64), none.call_ids(CallIdForm::Plain64)),
        ("plain_40", with(all, |it| it.call_ids = CallIdForm::Plain64), none.call_ids(CallIdForm::Plain40)),
        ("single_calls", with(all, |it| it.single_calls = false), none.single_calls()),
    ];

    let mut runner = TestRunner::deterministic();
    let logs = any_log();
    for (rule, without, predicate) in rules {
        let noticed = (0..1_000).any(|_| {
            let turns = logs.new_tree(&mut runner).unwrap().current();
            check_compat(&prompt(&log(&turns), &without), true, &predicate).is_err()
        });
        assert!(noticed, "{rule}");
    }
}

#[test]
fn a_field_of_another_maker_is_left_out_without_a_flag() {
    let turn = |maker| Turn { input: vec![Said::User], reply: Reply::Text(FIELDS[1]), results: 0, maker };
    let reply = |maker| prompt(&log(&[turn(maker)]), &Compat::new())[1].json().to_owned();
    assert_eq!(reply(Some("other")), r#"{"content":"t2","role":"assistant"}"#);
    for maker in [Some("reader"), None] {
        assert_eq!(reply(maker), r#"{"content":"t2","reasoning_content":"hm","role":"assistant"}"#);
    }
}

#[test]
fn each_of_several_calls_is_followed_by_its_result() {
    let turn = Turn { input: vec![Said::User], reply: Reply::Calls(vec!["a", "b"], "{}"), results: 2, maker: None };
    let sent = prompt(&log(&[turn]), &Compat::new().single_calls());
    let ids: Vec<String> = sent
        .iter()
        .map(|message| {
            let call = message.tool_calls().first().map(|call| call.id());
            format!("{} {}", message.role(), call.or(message.tool_call_id()).unwrap_or_default())
        })
        .collect();
    assert_eq!(ids, ["user ", "assistant a", "tool a", "assistant b", "tool b", "assistant ", "user "]);
}

#[test]
fn a_system_message_may_begin_the_list_where_nothing_is_before_it() {
    let turn = Turn { input: vec![Said::System, Said::User], reply: Reply::None, results: 0, maker: None };
    let log = log(&[turn]);
    let first = Compat::new().system(SystemMessages::First);
    assert_eq!(*prompt(&log, &first)[0].role(), Role::System);
    assert_eq!(*prompt(&log, &first.system(SystemMessages::Never))[0].role(), Role::User);
}
