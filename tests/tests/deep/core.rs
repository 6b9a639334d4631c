//! Messages, records and ids.

use serde::Serialize;
use serde_json::Value;
use tower_chat_history::{
    ConversationId, Exchange, ExchangeId, Message,
    adapt::nested,
    store::{Compaction, CompactionVersion, Cut, Cuts, Profile, Revision, Seq, TokenCounts, Usage},
};
use tower_chat_history_core::backend::RecordError;

use super::{
    Case,
    texts::{LEVELS, lists, log, message_texts, messages, texts, tool_round, value},
};

pub(crate) const CASES: &[Case] = cases![
    a_message_is_read_and_changed,
    a_value_is_refused,
    a_nested_type_is_refused,
    records_are_read_and_written,
    invalid_records_are_refused,
    invalid_ids_are_refused,
];

fn a_message_is_read_and_changed() {
    for message in messages().into_iter().chain(tool_round()) {
        let _ = (message.text(), message.content(), format!("{message:?}"), message.is_blank());
        assert_eq!(Message::from_json(message.json()).unwrap(), message);
        assert_eq!(serde_json::from_str::<Message>(message.json()).unwrap(), message);
        assert_eq!(serde_json::to_string(&message).unwrap(), message.json());
        assert_eq!(Message::from_serialize(&message).unwrap(), message);
        let with = message.with_field("more", &lists(LEVELS)).unwrap();
        assert!(with.fields().unwrap().contains_key("more") && with.has_unknown_fields());
        let _ = (with.without_field("more").unwrap(), with.sendable(), message.with_text("t").unwrap());
        let _ = message.with_parts(&texts()).unwrap();
    }
    for text in texts() {
        assert!(Message::from_json(text).is_err());
    }
    for json in message_texts() {
        assert!(Message::from_json(&json[..json.len() - 2]).is_err(), "it ends early");
    }
}

fn a_value_is_refused() {
    let message = |content| {
        let fields = [("role".to_owned(), Value::from("user")), ("content".to_owned(), content)];
        Value::Object(fields.into_iter().collect())
    };
    for levels in [nested::MAX_LEVELS, LEVELS] {
        let deep = message(value(levels));
        assert!(nested::is_too_deep(&deep));
        assert!(Message::from_serialize(&deep).is_err());
        assert!(nested::to_string(&deep).is_err());
        let error = Message::try_from(deep).unwrap_err();
        assert!(error.to_string().contains("more than 128 levels"), "{error}");
    }
    let most = Message::try_from(message(value(nested::MAX_LEVELS - 1))).unwrap();
    assert!(most.bytes() > nested::MAX_LEVELS);
}

fn a_nested_type_is_refused() {
    #[derive(Serialize)]
    struct Tree {
        role: &'static str,
        of: Vec<Tree>,
    }
    let leaf = Tree { role: "user", of: Vec::new() };
    let mut tree = (0..LEVELS).fold(leaf, |inner, _| Tree { role: "user", of: vec![inner] });
    assert!(Message::from_serialize(&tree).is_err());
    // The drop of this type would recurse.
    while let Some(inner) = tree.of.pop() {
        tree = inner;
    }
}

fn records_are_read_and_written() {
    for exchange in log() {
        let record = exchange.encode().unwrap();
        assert_eq!(Exchange::decode(&record).unwrap(), exchange);
        for deep in texts() {
            let record = record.replacen('{', &format!("{{\"unknown\":{deep},"), 1);
            assert_eq!(Exchange::decode(&record).unwrap(), exchange);
        }
    }
}

fn read_state(state: &str) -> Result<Cuts, RecordError> {
    let state = state.as_bytes().into();
    Cuts::read(&Compaction::new(CompactionVersion::NONE, Seq::FIRST, state, None))
}

fn read_derived(derived: &str) -> Result<Cuts, RecordError> {
    let state = Cuts::default().compact(Profile::default(), CompactionVersion::NONE).unwrap().state;
    let derived = Some(derived.as_bytes().into());
    Cuts::read(&Compaction::new(CompactionVersion::NONE, Seq::FIRST, state, derived))
}

fn invalid_records_are_refused() {
    let record = Exchange::new(ExchangeId::generate(), [Message::user("a")]).encode().unwrap();
    let cuts = Cuts::default().encode().unwrap();
    let state = Cuts::default().compact(Profile::default(), CompactionVersion::NONE).unwrap().state;
    let state = String::from_utf8(state.to_vec()).unwrap();
    for deep in texts() {
        assert!(Exchange::decode(&deep).is_err() && Cuts::decode(&deep).is_err());
        for name in ["v", "id", "at", "messages", "tokens", "usage", "model"] {
            let damaged = record.replacen(&format!("\"{name}\":"), &format!("\"{name}\":{deep},\"x\":"), 1);
            let _ = Exchange::decode(&damaged);
        }
        for name in ["v", "positions"] {
            let _ = Cuts::decode(&cuts.replacen(&format!("\"{name}\":"), &format!("\"{name}\":{deep},\"x\":"), 1));
        }
        let _ = Cuts::decode(&cuts.replacen('{', &format!("{{\"summary\":{deep},"), 1));
        let _ = Cuts::decode(&cuts.replacen('{', &format!("{{\"unknown\":{deep},"), 1));
        assert!(read_state(&deep).is_err() && read_derived(&deep).is_err());
        for name in ["v", "cut"] {
            let _ = read_state(&state.replacen(&format!("\"{name}\":"), &format!("\"{name}\":{deep},\"x\":"), 1));
        }
        let _ = read_state(&state.replacen('{', &format!("{{\"replaced\":{deep},"), 1));
        let _ = read_derived(&format!("{{\"summary\":{deep}}}"));
        assert!(serde_json::from_str::<Usage>(&deep).is_err());
        assert!(serde_json::from_str::<TokenCounts>(&deep).is_err());
        assert!(serde_json::from_str::<Cut>(&deep).is_err());
    }
}

fn invalid_ids_are_refused() {
    for deep in texts() {
        assert!(ConversationId::new([&deep]).is_err() && deep.parse::<ConversationId>().is_err());
        assert!(ExchangeId::new(&deep).is_err() && Profile::new(&deep).is_err());
        assert!(deep.parse::<Revision>().is_err());
        assert!(serde_json::from_str::<ConversationId>(&deep).is_err());
        assert!(serde_json::from_str::<ExchangeId>(&deep).is_err());
        let slashes = "a/".repeat(LEVELS);
        assert!(slashes.parse::<ConversationId>().is_err());
    }
}
