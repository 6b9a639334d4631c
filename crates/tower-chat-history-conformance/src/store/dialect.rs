//! Exchanges in other dialects than chat completions.

use tower_chat_history_core::{
    CallId, Citation, Dialect, Exchange, ExchangeId, Index, Load, Loaded, Message, MessageError, Part, Recalled, Role,
    Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::DIALECT;

/// A dialect that no store knows. Its elements are JSON of any kind, and all of them are the model's.
#[derive(Debug)]
struct AnyJson;

impl Dialect for AnyJson {
    fn name(&self) -> &'static str {
        "conformance/any~json"
    }

    fn index(&self, _: &str) -> Result<Index, MessageError> {
        Ok(Index::new(Role::Assistant))
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        visit(Part::Other { kind: "".into(), text: message.json().into() });
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        serde_json::Value::from_iter([(role.as_str(), text)]).to_string()
    }

    fn abandoned(&self, call: &CallId) -> String {
        self.compose(&Role::Tool, call.as_str())
    }

    fn cleared(&self, _: &Message, _: &dyn Fn(&CallId) -> bool, _: &str) -> Option<String> {
        None
    }
}

const ELEMENTS: [&str; 7] = [
    r#"{ "type":"reasoning", "summary":[], "encrypted_content":"\u0000\ud83d" }"#,
    r#"{"type":"function_call","call_id":"x","arguments":"{"}"#,
    r#"{"type":"function_call","call_id":"x","arguments":"{"}"#,
    r#""a text""#,
    "[1.50,[],{}]",
    "-0",
    "null",
];

fn element(json: &str) -> Message {
    Message::in_dialect(&AnyJson, json).must("every JSON value is an element", &CLAUSE)
}

/// Returns an exchange whose last elements are the reply.
fn of_elements(reply_len: usize) -> Exchange {
    Exchange::new(ExchangeId::generate(), ELEMENTS.map(element)).with_reply_len(reply_len)
}

/// Elements of a dialect that the store does not know are returned byte for byte, with the dialect's name and the
/// length of the reply. The elements need not be objects.
pub async fn elements_of_an_unknown_dialect_come_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for reply_len in 0..=ELEMENTS.len() {
        log.push(chat.add(of_elements(reply_len)).await);
    }
    for chat in [&chat, &chat.reopened(fixture).await] {
        let read = chat.log().await;
        assert_eq!(read, log);
        assert_eq!(chat.window(Load::new()).await.exchanges, log);
        let asked = Load::new().exchange(log[3].exchange.id.clone());
        assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(log[3].clone()));
        for (recorded, reply_len) in read.iter().zip(0..) {
            let exchange = &recorded.exchange;
            assert_eq!((exchange.dialect.as_str(), exchange.reply().len()), (AnyJson.name(), reply_len));
            exchange.read_in(&AnyJson).must("the elements are those of the dialect", &CLAUSE);
            assert!(exchange.messages.iter().all(Message::is_reply));
        }
    }
}

/// Recalled messages in an unknown dialect are returned like all others.
pub async fn recalled_elements_of_an_unknown_dialect_come_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(1).await;
    let mut exchange = of_elements(1);
    let mut recalled = Recalled::new("", vec![Citation::new(Seq::FIRST, 0..2)]);
    recalled.message = element(r#"{"user" : "Rex"}"#);
    exchange.recalled = Some(recalled);
    let log = [chat.add(exchange).await];
    assert_eq!(chat.log().await[1..], log);
    assert_eq!(chat.window(Load::new()).await.exchanges[1..], log);
}

/// A conversation may have exchanges of several dialects.
pub async fn dialects_can_alternate(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(1).await;
    log.push(chat.add(of_elements(2)).await);
    log.extend([chat.add(call_of("and now?")).await, chat.add(of_elements(0)).await]);
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
}
