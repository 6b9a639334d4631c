//! Windows that would begin with a reply, which the Messages API refuses.

use serde_json::{Value, json};
use tower_chat_history::{
    ContextBudget, ConversationId, Engine, HistoryOptions, HistoryStore as _, MemoryStore, Message, Policies, Reply,
    TurnInput,
    dialect::{AnthropicMessages, ChatCompletions, Dialect, OpenAiResponses},
    policy::OnOtherDialect,
    store::{Append, Exchange, ExchangeId, Expect},
};
use tower_chat_history_test::messages::{MessagesProvider, Say};

const CHAT: &dyn Dialect = &ChatCompletions;
const MESSAGES: &dyn Dialect = &AnthropicMessages;
const RESPONSES: &dyn Dialect = &OpenAiResponses;

fn id() -> ConversationId {
    ConversationId::new(["beginnings"]).unwrap()
}

/// Adds an exchange with these messages to the log. The last one is the reply.
async fn import(store: &MemoryStore, dialect: &'static dyn Dialect, messages: &[&str]) {
    let messages: Vec<Message> = messages.iter().map(|json| Message::in_dialect(dialect, *json).unwrap()).collect();
    let exchange = Exchange::new(ExchangeId::generate(), messages).with_reply_len(1);
    store.append(&id(), Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
}

/// Asks a question in the Messages API, whose provider accepts the prompt. Returns the prompt.
async fn ask(engine: &Engine, provider: &MessagesProvider, text: &str) -> Vec<Value> {
    let question = Message::in_dialect(MESSAGES, json!({"role": "user", "content": text}).to_string()).unwrap();
    let turn = engine.begin(TurnInput::new(id(), [question]).dialect(MESSAGES)).await.unwrap();
    let sent: Vec<Value> = turn.context().iter().map(|message| serde_json::from_str(message.json()).unwrap()).collect();
    let body = json!({"model": "m", "max_tokens": 9, "messages": sent}).to_string();
    let says = [Say::Thinking("hm".into()), Say::Text("so".into())];
    let response: Value = serde_json::from_str(&provider.reply(&body, &says).unwrap().body()).unwrap();
    let reply = json!({"role": "assistant", "content": response["content"]}).to_string();
    turn.commit(Reply::of([Message::in_dialect(MESSAGES, reply).unwrap()])).await.unwrap();
    sent
}

fn options() -> HistoryOptions {
    HistoryOptions::new().policies(Policies::new().on_other_dialect(OnOtherDialect::Translate))
}

#[tokio::test]
async fn a_log_that_begins_with_a_reply_is_accepted() {
    let said = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello!"}]}"#;
    let (chat, blocks) = (
        r#"{"role":"assistant","content":"Hello!"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"Hello!"}]}"#,
    );
    let blank = r#"{"role":"user","content":" "}"#;
    let unknown = r#"{"role":"user","content":[{"type":"hologram"}]}"#;
    for (dialect, messages) in [
        (CHAT, &[chat][..]),
        (CHAT, &[blank, chat]),
        (CHAT, &[unknown, chat]),
        (CHAT, &[r#"{"role":"user","content":null}"#, chat]),
        (MESSAGES, &[blocks]),
        (MESSAGES, &[blank, blocks]),
        (RESPONSES, &[said]),
        (RESPONSES, &[blank, said]),
    ] {
        let (store, provider) = (MemoryStore::new(), MessagesProvider::new("p"));
        import(&store, dialect, messages).await;
        let engine = Engine::with_options(store, options());
        let first = ask(&engine, &provider, "Who are you?").await;
        assert_eq!(first[0], json!({"role": "user", "content": "(no text)"}), "{messages:?}");
        assert_eq!(first.len(), 3, "the greeting, and the question: {first:?}");
        let second = ask(&engine, &provider, "And now?").await;
        assert_eq!((&second[..3], second.len()), (&first[..], 5), "{messages:?}");
        assert_eq!(second[3]["content"][0]["type"], "thinking", "the first message is a part of its prompt");
    }
}

#[tokio::test]
async fn a_window_that_a_cut_begins_at_an_empty_question_is_accepted() {
    let answer = json!({"role": "assistant", "content": "because ".repeat(20)}).to_string();
    for window in (300..900).step_by(20) {
        let (store, provider) = (MemoryStore::new(), MessagesProvider::new("p"));
        for turn in 0..40 {
            let question = if turn % 3 == 0 { "" } else { "why?" };
            import(&store, CHAT, &[&json!({"role": "user", "content": question}).to_string(), &answer]).await;
        }
        // A cut of the first dialect can begin at any question.
        let in_chat = Engine::with_options(store.clone(), options().context(ContextBudget::tokens(window)));
        let turn = in_chat.begin(TurnInput::new(id(), [Message::user("?")])).await.unwrap();
        turn.commit(Reply::new(Message::assistant("so"))).await.unwrap();
        let engine = Engine::with_options(store, options());
        let first = ask(&engine, &provider, "Who are you?").await;
        let second = ask(&engine, &provider, "And now?").await;
        assert_eq!((first[0]["role"].as_str(), &second[..first.len()]), (Some("user"), &first[..]), "{window}");
    }
}
