//! Replies that the provider pauses while it executes its own tools.

use serde_json::{Value, json};
use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryStoreExt as _, MemoryStore, Message, Reply, TurnInput,
    dialect::AnthropicMessages, error::InputError,
};
use tower_chat_history_test::messages::{MessagesProvider, Say};

/// A conversation with a provider of the Messages API.
struct Talk {
    store: MemoryStore,
    engine: Engine,
    provider: MessagesProvider,
    id: ConversationId,
}

fn user(content: &Value) -> Message {
    Message::in_dialect(&AnthropicMessages, json!({"role": "user", "content": content}).to_string()).unwrap()
}

impl Talk {
    fn new() -> Self {
        let store = MemoryStore::new();
        let engine = Engine::new(store.clone());
        Self { store, engine, provider: MessagesProvider::new("p"), id: ConversationId::new(["paused"]).unwrap() }
    }

    /// Sends an input, and stores the reply. Returns the messages that were sent.
    async fn call(&self, input: Vec<Message>, says: &[Say]) -> Result<Vec<Value>, HistoryError> {
        self.receive(input, says, usize::MAX).await
    }

    /// Does the same, and only this number of blocks arrives.
    async fn receive(&self, input: Vec<Message>, says: &[Say], blocks: usize) -> Result<Vec<Value>, HistoryError> {
        let input = TurnInput::new(self.id.clone(), input).dialect(&AnthropicMessages);
        let turn = self.engine.begin(input).await?;
        let sent: Vec<Value> =
            turn.context().iter().map(|message| serde_json::from_str(message.json()).unwrap()).collect();
        let body = json!({"model": "m", "max_tokens": 9, "messages": sent}).to_string();
        let mut response: Value = serde_json::from_str(&self.provider.reply(&body, says).unwrap().body()).unwrap();
        let arrived = response["content"].as_array_mut().unwrap();
        let incomplete = blocks < arrived.len();
        arrived.truncate(blocks);
        let message = json!({"role": "assistant", "content": response["content"]}).to_string();
        let mut reply = Reply::of([Message::in_dialect(&AnthropicMessages, message).unwrap()]);
        reply.incomplete = incomplete;
        reply.finish_reason = response["stop_reason"].as_str().filter(|_| !incomplete).map(str::to_owned);
        turn.commit(reply).await.unwrap();
        Ok(sent)
    }

    async fn log(&self) -> Vec<(Option<u64>, usize)> {
        let log = self.store.conversation(&self.id).exchanges().await.unwrap();
        let of = |recorded: &tower_chat_history::store::Recorded| {
            (recorded.exchange.continues.map(|seq| seq.get()), recorded.exchange.messages.len())
        };
        log.iter().map(of).collect()
    }
}

fn pauses() -> [Say; 4] {
    [Say::Thinking("hm".into()), Say::Text("I look.".into()), Say::OpenSearch("s".into()), Say::Pause]
}

#[tokio::test]
async fn a_paused_reply_is_continued_by_a_call_without_input() {
    let talk = Talk::new();
    talk.call(vec![user(&json!("What is new?"))], &pauses()).await.unwrap();
    let says = [Say::Found("s".into()), Say::Thinking("so".into()), Say::Text("Nothing.".into())];
    let sent = talk.call(vec![], &says).await.unwrap();
    assert_eq!((sent.len(), &sent[1]["content"][2]["type"]), (2, &json!("server_tool_use")));
    assert_eq!(talk.log().await, [(None, 2), (Some(0), 1)], "the rest of the reply is an exchange of its own");
    let again = talk.call(vec![user(&json!("And now?"))], &[Say::Text("Still nothing.".into())]).await.unwrap();
    assert_eq!((again.len(), &again[..2]), (4, &sent[..]), "nothing that was sent has changed");
    let refused = talk.call(vec![], &[]).await.unwrap_err();
    assert!(matches!(refused, HistoryError::Input(InputError::Empty)), "this reply is not paused: {refused}");
}

#[tokio::test]
async fn a_question_ends_a_paused_reply() {
    let talk = Talk::new();
    talk.call(vec![user(&json!("What is new?"))], &pauses()).await.unwrap();
    let sent = talk.call(vec![user(&json!("Never mind."))], &[Say::Text("Fine.".into())]).await.unwrap();
    let kinds: Vec<&Value> = sent[1]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["thinking", "text"], "the call is left out");
    assert_eq!(talk.log().await, [(None, 2), (None, 2)]);
}

#[tokio::test]
async fn a_reply_can_pause_several_times_and_break_off() {
    let talk = Talk::new();
    talk.call(vec![user(&json!("What is new?"))], &pauses()).await.unwrap();
    let more = [Say::Found("s".into()), Say::Text("Hm.".into()), Say::OpenSearch("t".into()), Say::Pause];
    talk.receive(vec![], &more, 2).await.unwrap();
    let sent = talk.call(vec![], &more).await.unwrap();
    assert_eq!(sent.len(), 2, "the attempt that broke off is replaced");
    let last = [Say::Found("t".into()), Say::Text("Nothing.".into())];
    assert_eq!(talk.call(vec![], &last).await.unwrap().len(), 3);
    let sent = talk.call(vec![user(&json!("And now?"))], &[Say::Text("Still.".into())]).await.unwrap();
    assert_eq!(sent.len(), 5);
    assert_eq!(talk.log().await, [(None, 2), (Some(0), 1), (Some(0), 1), (Some(2), 1), (None, 2)]);
}

#[tokio::test]
async fn a_tool_of_the_provider_waits_for_the_result_of_the_program() {
    let talk = Talk::new();
    let asks = [Say::OpenSearch("s".into()), Say::call("x", "look", serde_json::json!({}))];
    talk.call(vec![user(&json!("What is new?"))], &asks).await.unwrap();
    let result = user(&json!([{"type": "tool_result", "tool_use_id": "x", "content": "1"}]));
    let sent = talk.call(vec![result], &[Say::Found("s".into()), Say::Text("So.".into())]).await.unwrap();
    assert_eq!(sent[1]["content"][0]["type"], "server_tool_use");
    let again = talk.call(vec![user(&json!("And now?"))], &[Say::Text("So.".into())]).await.unwrap();
    assert_eq!(again[..3], sent[..]);
}
