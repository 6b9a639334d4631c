//! The conversation handle over this store.

use tower_chat_history_core::{CompactionVersion, HistoryStoreExt, ImportError, Message, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::HANDLE;

const CALL: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;

/// The messages are those of the whole log as they were stored, not only of its window.
pub async fn messages_are_those_of_the_log(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::VERBATIM;
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.conversation(&chat.id);
    assert_eq!(conversation.messages().await.must("absent is empty", &CLAUSE), []);
    let log = chat.add_turns(5).await;
    chat.cut(CompactionVersion::NONE, summary_to(4, "before")).await;
    let messages: Vec<Message> = log.iter().flat_map(|recorded| recorded.exchange.messages.clone()).collect();
    assert_eq!(conversation.messages().await.must("the log can be read", &CLAUSE), messages);
    assert_eq!(conversation.exchanges().await.must("the log can be read", &CLAUSE), log);
}

/// The messages of a log larger than a page of the store are all returned.
pub async fn messages_of_a_large_log_are_listed(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let text = "x".repeat(600_000);
    for n in 0..10 {
        chat.add(turn_of(&format!("{n} {text}"))).await;
    }
    let messages = chat.store.conversation(&chat.id).messages().await.must("the log can be read", &CLAUSE);
    assert_eq!(messages.len(), 20);
    let order: Vec<String> = messages.iter().step_by(2).map(|message| message.text()[..1].to_owned()).collect();
    assert_eq!(order.concat(), "0123456789");
}

/// An imported log ends its exchanges at assistant messages, continues turns, and may end with a question.
pub async fn an_import_keeps_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.conversation(&chat.id);
    let log = [
        Message::user("Hey there! I'm Nemo."),
        Message::assistant("Hello!"),
        Message::user("What is six times seven?"),
        message(CALL),
        Message::tool("x", "42"),
        Message::assistant("42."),
        Message::user("Who am I?"),
    ];
    assert_eq!(conversation.import(log.clone()).await.must("nothing is there yet", &CLAUSE), 4);
    assert_eq!(conversation.messages().await.must("the log can be read", &CLAUSE), log);
    let exchanges = conversation.exchanges().await.must("the log can be read", &CLAUSE);
    let shape: Vec<_> = exchanges.iter().map(|e| (e.exchange.messages.len(), e.exchange.continues)).collect();
    assert_eq!(shape, [(2, None), (2, None), (2, Some(Seq::new(1))), (1, None)]);
}

/// An import continues at the end of the log, also with the result of its last call.
pub async fn an_import_continues_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.conversation(&chat.id);
    let first = [Message::user("hi"), Message::assistant("hello"), Message::user("6 * 7?"), message(CALL)];
    conversation.import(first).await.must("nothing is there yet", &CLAUSE);
    let rest = [Message::tool("x", "42"), Message::assistant("42."), Message::user("thanks")];
    assert_eq!(conversation.import(rest).await.must("there is no other writer", &CLAUSE), 2);
    let continues: Vec<_> = chat.log().await.iter().map(|recorded| recorded.exchange.continues).collect();
    assert_eq!(continues, [None, None, Some(Seq::new(1)), None]);
}

/// An import of nothing does nothing, and a log that starts with instructions is refused as a whole.
pub async fn instructions_are_not_imported(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.conversation(&chat.id);
    assert_eq!(conversation.import([]).await.must("nothing to do", &CLAUSE), 0);
    let log = [Message::system("be kind"), Message::developer("be brief"), Message::user("hi")];
    let refused = conversation.import(log).await;
    assert!(matches!(refused, Err(ImportError::Instructions { count: 2 })), "{refused:?}");
    chat.assert_absent().await;
}

/// Clearing removes the conversation, and an import creates it again.
pub async fn a_cleared_conversation_can_be_filled_again(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.conversation(&chat.id);
    chat.add_turns(3).await;
    conversation.clear().await.must("it can be deleted", &CLAUSE);
    conversation.clear().await.must("it is gone already", &CLAUSE);
    chat.assert_absent().await;
    let log = [Message::user("hi"), Message::assistant("who are you?")];
    assert_eq!(conversation.import(log.clone()).await.must("nothing is there", &CLAUSE), 1);
    assert_eq!(conversation.messages().await.must("the log can be read", &CLAUSE), log);
}
