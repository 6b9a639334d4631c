//! Rules of translations.

use tower_chat_history_core::{
    AnthropicMessages, Bound, ChatCompletions, Dialect, Exchange, ExchangeId, Expressed, LeftOut, Message,
    OpenAiResponses, Origin, Placed, Recorded, Role, Rounds, Seq, Statement, Translator,
};

use super::{
    Samples,
    report::{fail, require, same},
};
use crate::clause;

/// The built-in dialects.
const DIALECTS: [&dyn Dialect; 3] = [&ChatCompletions, &AnthropicMessages, &OpenAiResponses];

/// The statements of an element are the same in each call. They have all its calls and results, in order. Results come
/// first.
pub fn statements_have_the_calls_and_results_of_the_index(samples: &Samples) {
    for message in samples.messages() {
        let json = message.json();
        let statements = samples.dialect.statements(&message, &mut LeftOut::default());
        let again = samples.dialect.statements(&message, &mut LeftOut::default());
        same(&again, &statements, &clause::PURE, json, "the same statements");
        let calls = statements.iter().filter_map(|statement| match statement {
            Statement::Call(call) => Some(call.id.original().clone()),
            _ => None,
        });
        let opens: Vec<_> = message.tool_calls().iter().map(|call| call.call_id().clone()).collect();
        same(&calls.collect::<Vec<_>>(), &opens, &clause::STATED_CALLS, json, "the calls of the index");
        let results = statements.iter().map_while(|statement| match statement {
            Statement::Result { call, .. } => Some(call.original().clone()),
            _ => None,
        });
        let answers = message.answers().to_vec();
        same(&results.collect::<Vec<_>>(), &answers, &clause::STATED_RESULTS, json, "the results of the index");
        let rest = statements.iter().skip(answers.len());
        let has_more = rest.filter(|statement| matches!(statement, Statement::Result { .. })).count() > 0;
        require(!has_more, &clause::STATED_RESULTS, json, "no more results");
    }
}

/// Every element can be said in the built-in dialects. The elements in which it is said can be sent as they are.
pub fn every_element_can_be_said_in_the_built_in_dialects(samples: &Samples) {
    for message in samples.messages() {
        for to in DIALECTS {
            let statements = samples.dialect.statements(&message, &mut LeftOut::default());
            for element in express(to, &statements, message.json()) {
                require_sendable(&element);
            }
        }
    }
}

/// A conversation in each of the built-in dialects can be said in the dialect: its texts stay, and either all
/// calls or none. Each call gets its result. The elements can be sent as they are.
pub fn conversations_of_other_dialects_can_be_said(samples: &Samples) {
    for (from, log) in DIALECTS.into_iter().zip(LOGS) {
        let (origin, mut rounds) = (Origin::unknown(), Rounds::default());
        let mut translators = [0, 1].map(|_| Translator::new(samples.dialect, &origin));
        let (mut said, mut opens) = (String::new(), 0);
        for (seq, (messages, reply_len)) in (0..).map(Seq::new).zip(log) {
            let recorded = recorded(from, seq, messages, *reply_len);
            let [found, again] = translators.each_mut().map(|translator| {
                translator.translate(&recorded).unwrap_or_else(|error| {
                    fail(&clause::READS_ITS_ELEMENTS, from.name(), "an element", &error.to_string())
                })
            });
            same(&again, &found, &clause::PURE, from.name(), "the same translation");
            for (at, message) in (1..).zip(&found.exchange.messages) {
                require_sendable(message);
                let Placed::Sent { closed, .. } = rounds.push(message, &found.exchange.messages[at..]) else {
                    fail(&clause::SAME_ID, message.json(), "a result of an open call", "the result of none")
                };
                require(closed.is_empty(), &clause::SAME_ID, message.json(), "all results before it");
                said.push_str(message.json());
                opens += message.tool_calls().len();
            }
        }
        require(rounds.open().is_empty(), &clause::SAME_ID, &said, "no open call");
        require(opens == 0 || opens == CALLS, &clause::SAYS_STATEMENTS, &said, "all calls, or none");
        for text in TEXTS {
            require(said.contains(text), &clause::SAYS_STATEMENTS, &said, text);
        }
    }
}

/// Returns the elements that say this.
fn express(to: &'static dyn Dialect, statements: &[Statement<'_>], json: &str) -> Vec<Message> {
    let (reader, deepseek) = (Origin::unknown(), Origin::unknown().provider("deepseek"));
    let write = |reader: &Origin, is_followed: bool| {
        let written = to.express(statements, &mut Expressed::new(reader).followed(is_followed));
        let again = to.express(statements, &mut Expressed::new(reader).followed(is_followed));
        same(&again, &written, &clause::PURE, json, "the same elements");
        written
    };
    let written = [write(&reader, false), write(&reader, true), write(&deepseek, false)].concat();
    let read = |json: String| {
        Message::in_dialect(to, json.as_str())
            .unwrap_or_else(|error| fail(&clause::READS_ITS_ELEMENTS, &json, "an element", &error.to_string()))
    };
    written.into_iter().map(read).collect()
}

/// Requires an element that can be sent anywhere.
#[track_caller]
fn require_sendable(message: &Message) {
    let (json, index) = (message.json(), message.index());
    let says = &clause::SENT_AS_IT_IS;
    require(!matches!(index.role, Role::Other(_)), says, json, "an element of a known kind");
    require(!index.says_nothing, says, json, "an element that says something");
    require(index.bound == Bound::NONE, says, json, "nothing that is bound");
    require(!index.is_rewritten && !index.restarts, says, json, "an element that is sent as it is");
}

fn recorded(from: &'static dyn Dialect, seq: Seq, messages: &[&str], reply_len: usize) -> Recorded {
    let read = |json: &&str| {
        Message::in_dialect(from, *json)
            .unwrap_or_else(|error| fail(&clause::READS_ITS_ELEMENTS, json, "an element", &error.to_string()))
    };
    let messages: Vec<Message> = messages.iter().map(read).collect();
    let id = ExchangeId::new(format!("e{seq}")).unwrap_or_else(|_| ExchangeId::generate());
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
