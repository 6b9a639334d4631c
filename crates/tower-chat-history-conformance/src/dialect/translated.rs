//! Rules of translations.

use tower_chat_history_core::{
    AnthropicMessages, Bound, ChatCompletions, Dialect, Exchange, ExchangeId, Expressed, LeftOut, Message,
    OpenAiResponses, Origin, Placed, Recorded, Role, Rounds, Seq, Statement, Translator,
};

use super::{Samples, read};

/// The built-in dialects.
const DIALECTS: [&dyn Dialect; 3] = [&ChatCompletions, &AnthropicMessages, &OpenAiResponses];

/// The statements of an element are the same in each call. They have all its calls and results, in order. Results come
/// first.
pub fn statements_have_the_calls_and_results_of_the_index(samples: &Samples) {
    for message in samples.messages() {
        let json = message.json();
        let statements = samples.dialect.statements(&message, &mut LeftOut::default());
        let again = samples.dialect.statements(&message, &mut LeftOut::default());
        assert_eq!(again, statements, "{json}");
        let calls = statements.iter().filter_map(|statement| match statement {
            Statement::Call(call) => Some(call.id.original().clone()),
            _ => None,
        });
        let opens: Vec<_> = message.tool_calls().iter().map(|call| call.call_id().clone()).collect();
        assert_eq!(calls.collect::<Vec<_>>(), opens, "{json}");
        let results = statements.iter().map_while(|statement| match statement {
            Statement::Result { call, .. } => Some(call.original().clone()),
            _ => None,
        });
        assert_eq!(results.collect::<Vec<_>>(), message.answers(), "{json}");
        let mut rest = statements.iter().skip(message.answers().len());
        assert!(!rest.any(|statement| matches!(statement, Statement::Result { .. })), "a result comes late: {json}");
    }
}

/// Every element can be said in the built-in dialects. The elements in which it is said can be sent as they are.
pub fn every_element_can_be_said_in_the_built_in_dialects(samples: &Samples) {
    for message in samples.messages() {
        for to in DIALECTS {
            let statements = samples.dialect.statements(&message, &mut LeftOut::default());
            for element in express(to, &statements, message.json()) {
                assert_sendable(&element);
            }
        }
    }
}

/// A conversation in each of the built-in dialects can be said in the dialect: its texts stay, and either all
/// calls or none. Each call gets its result. The elements can be sent as they are.
pub fn conversations_of_other_dialects_can_be_said(samples: &Samples) {
    let origin = Origin::unknown();
    for (from, log) in DIALECTS.into_iter().zip(LOGS) {
        let mut translator = Translator::new(samples.dialect, &origin);
        let mut again = Translator::new(samples.dialect, &origin);
        let mut rounds = Rounds::default();
        let mut said = String::new();
        let mut opens = 0;
        for (seq, (messages, reply_len)) in (0..).map(Seq::new).zip(log) {
            let recorded = recorded(from, seq, messages, *reply_len);
            let found = translator.translate(&recorded).unwrap();
            assert_eq!(again.translate(&recorded).unwrap(), found, "{}", from.name());
            for (at, message) in (1..).zip(&found.exchange.messages) {
                assert_sendable(message);
                let Placed::Sent { closed, .. } = rounds.push(message, &found.exchange.messages[at..]) else {
                    panic!("a result of no open call: {}", message.json())
                };
                assert!(closed.is_empty(), "a call has no result: {}", message.json());
                said.push_str(message.json());
                opens += message.tool_calls().len();
            }
        }

        assert!(rounds.open().is_empty(), "a call has no result: {said}");
        assert!(opens == 0 || opens == CALLS, "only some calls: {said}");
        for text in TEXTS {
            assert!(said.contains(text), "{text:?} is missing: {said}");
        }
    }
}

/// Returns the elements that say this.
fn express(to: &'static dyn Dialect, statements: &[Statement<'_>], json: &str) -> Vec<Message> {
    let reader = Origin::unknown();
    let deepseek = Origin::unknown().provider("deepseek");
    let mut elements = Vec::new();
    for (reader, is_followed) in [(&reader, false), (&reader, true), (&deepseek, false)] {
        let written = to.express(statements, &mut Expressed::new(reader).followed(is_followed));
        let again = to.express(statements, &mut Expressed::new(reader).followed(is_followed));
        assert_eq!(again, written, "{json}");
        elements.extend(written.iter().map(|json| read(to, json)));
    }
    elements
}

/// Asserts an element that can be sent anywhere.
#[track_caller]
fn assert_sendable(message: &Message) {
    let json = message.json();
    let index = message.index();
    assert!(!matches!(index.role, Role::Other(_)), "its kind is unknown: {json}");
    assert!(!index.is_blank, "it says nothing: {json}");
    assert_eq!(index.bound, Bound::NONE, "{json}");
    assert!(!index.is_rewritten && !index.restarts, "it is rewritten: {json}");
}

fn recorded(from: &'static dyn Dialect, seq: Seq, messages: &[&str], reply_len: usize) -> Recorded {
    let messages = messages.iter().map(|json| read(from, json));
    let id = ExchangeId::new(format!("e{seq}")).unwrap();
    let mut exchange = Exchange::new(id, messages).with_reply_len(reply_len);
    exchange.continues = seq.get().checked_sub(1).filter(|_| seq.get() == 1).map(Seq::new);
    Recorded::new(seq, exchange)
}

/// The texts of all conversations.
const TEXTS: [&str; 6] = ["What is new", "I look.", "first result", "second result", "Nothing.", "Be brief"];

/// The number of calls in all conversations.
const CALLS: usize = 2;

/// The elements of an exchange, and the number of those of its reply.
type Elements = (&'static [&'static str], usize);

/// A conversation in each of the [`DIALECTS`]: a question with an image, two calls with odd ids and arguments, their
/// results, a reply with reasoning, and an instruction.
const LOGS: [&[Elements]; 3] = [
    &[
        (
            &[
                r#"{"role":"user","name":"Nemo","content":[{"type":"text","text":"What is new?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA==","detail":"low"}},{"type":"file","file":{"file_id":"f"}}]}"#,
                r#"{"role":"assistant","content":"I look.","reasoning_content":"Hm.","tool_calls":[{"id":"functions.f:0","type":"function","function":{"name":"a.b","arguments":"{"}},{"id":"x","type":"custom","custom":{"name":"g","input":"a"}}]}"#,
            ],
            1,
        ),
        (
            &[
                r#"{"role":"tool","tool_call_id":"x","content":"second result"}"#,
                r#"{"role":"tool","tool_call_id":"functions.f:0","content":[{"type":"text","text":"first result"}]}"#,
                r#"{"role":"assistant","content":"Nothing.","refusal":null}"#,
            ],
            1,
        ),
        (&[r#"{"role":"developer","content":"Be brief."}"#, r#"{"role":"assistant","content":""}"#], 1),
    ],
    &[
        (
            &[
                r#"{"role":"user","content":[{"type":"text","text":"What is new?"},{"type":"image","source":{"type":"url","url":"http://example.com"}},{"type":"document","title":"t","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}}]}"#,
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"x","name":"f","input":{}},{"type":"tool_use","id":"toolu_0123456789abcdef","name":"g","input":{"a":[1.50]}}]}"#,
            ],
            1,
        ),
        (
            &[
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"first result"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},{"type":"tool_result","tool_use_id":"toolu_0123456789abcdef","content":"second result","is_error":true}]}"#,
                r#"{"role":"assistant","content":[{"type":"compaction","content":"So far."},{"type":"text","text":"Nothing."}]}"#,
            ],
            1,
        ),
        (
            &[
                r#"{"role":"user","content":"Be brief."}"#,
                r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"d"}]}"#,
            ],
            1,
        ),
    ],
    &[
        (
            &[
                r#"{"role":"user","content":[{"type":"input_text","text":"What is new?"},{"type":"input_image","image_url":"https://example.com/a.png"},{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,AA=="}]}"#,
                r#"{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"}"#,
                r#"{"type":"message","id":"msg","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[]}],"phase":"commentary"}"#,
                r#"{"type":"function_call","id":"fc","call_id":"x","name":"f","arguments":"{}"}"#,
                r#"{"type":"custom_tool_call","id":"ctc","call_id":"x","name":"f","input":"a"}"#,
            ],
            4,
        ),
        (
            &[
                r#"{"type":"custom_tool_call_output","call_id":"x","output":"second result"}"#,
                r#"{"type":"function_call_output","call_id":"x","output":[{"type":"input_text","text":"first result"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}"#,
                r#"{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"Nothing."}]}"#,
            ],
            1,
        ),
        (
            &[
                r#"{"type":"message","role":"system","content":"Be brief."}"#,
                r#"{"type":"compaction","encrypted_content":"e"}"#,
            ],
            1,
        ),
    ],
];
