//! Callers that resend their list of messages, at the engine.

use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message, Policies, Reply,
    Turn, TurnInput,
    engine::InputMode,
    policy::{OnLoadFailure, OnTranscriptMismatch},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

/// A caller that keeps its own list of messages and sends all of it with each call.
struct Caller {
    engine: Engine,
    messages: Vec<Message>,
}

fn id() -> ConversationId {
    ConversationId::new(["transcript"]).unwrap()
}

impl Caller {
    async fn begin(&self) -> Result<Turn, HistoryError> {
        let input = InputMode::Transcript.input_start(&self.messages);
        let (transcript, input) = self.messages.split_at(input);
        self.engine.begin(TurnInput::new(id(), input.to_vec()).transcript(transcript.to_vec())).await
    }

    /// Sends messages and adds the reply to the caller's list, without a field that its types do not have.
    async fn say(&mut self, input: &[Message], reply: &str) {
        self.messages.extend_from_slice(input);
        let turn = self.begin().await.unwrap();
        assert_eq!(turn.context(), self.messages, "the context equals the caller's list");
        self.messages.push(Message::from_json(reply.replace(r#","reasoning_content":"r""#, "")).unwrap());
        turn.commit(Reply::new(Message::from_json(reply).unwrap())).await.unwrap();
    }
}

fn calls(id: &str) -> String {
    format!(
        r#"{{"role":"assistant","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#
    )
}

#[tokio::test]
async fn a_tool_loop_that_resends_its_list_is_stored_once() {
    let store = MemoryStore::new();
    let mut caller = Caller { engine: Engine::new(store.clone()), messages: vec![] };
    caller.say(&[Message::user("u")], &calls("x")).await;
    caller.say(&[Message::tool("x", "1")], &calls("y")).await;
    caller.say(&[Message::tool("y", "2")], &calls("z")).await;
    caller.say(&[Message::tool("z", "3")], r#"{"role":"assistant","content":"a"}"#).await;
    assert_eq!(store.conversation(&id()).messages().await.unwrap(), caller.messages);
    assert_eq!(store.conversation(&id()).exchanges().await.unwrap().len(), 4);
}

#[tokio::test]
async fn fields_dropped_by_the_caller_are_still_sent() {
    let store = MemoryStore::new();
    let mut caller = Caller { engine: Engine::new(store), messages: vec![] };
    caller.say(&[Message::user("u0")], r#"{"role":"assistant","content":"a0","reasoning_content":"r"}"#).await;
    caller.messages.push(Message::user("u1"));
    let turn = caller.begin().await.unwrap();
    assert!(turn.window()[1].json().contains("reasoning_content"));
}

#[tokio::test]
async fn a_transcript_of_another_conversation_never_reaches_the_model() {
    let store = MemoryStore::new();
    let mut caller = Caller { engine: Engine::new(store), messages: vec![] };
    caller.say(&[Message::user("u0")], r#"{"role":"assistant","content":"a0"}"#).await;
    caller.messages = vec![Message::user("other"), Message::assistant("a0"), Message::user("u1")];
    let Err(HistoryError::Transcript(mismatch)) = caller.begin().await else { panic!("it began") };
    assert_eq!((mismatch.position, mismatch.seq.map(|seq| seq.get())), (0, Some(0)));
}

#[tokio::test]
async fn a_transcript_replaces_a_history_that_cannot_be_loaded() {
    let store = FaultStore::new(MemoryStore::new());
    let options = HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
    let mut caller = Caller { engine: Engine::with_options(store.clone(), options), messages: vec![] };
    caller.say(&[Message::user("u0")], &calls("x")).await;
    store.fail(Op::Load, 1, Fault::Unavailable);
    caller.say(&[Message::tool("x", "r")], r#"{"role":"assistant","content":"a"}"#).await;
    assert_eq!(store.conversation(&id()).messages().await.unwrap(), caller.messages, "only new messages are stored");
}

#[tokio::test]
async fn a_caller_may_trim_white_space_and_the_log_is_unchanged() {
    let store = MemoryStore::new();
    let mut caller = Caller { engine: Engine::new(store.clone()), messages: vec![] };
    caller.say(&[Message::user("u0")], r#"{"role":"assistant","content":"\n a0 \n"}"#).await;
    caller.messages[1] = Message::assistant(caller.messages[1].text().trim());
    caller.messages.push(Message::user("u1"));
    let turn = caller.begin().await.unwrap();
    assert_eq!(turn.window()[1].text(), "\n a0 \n", "the log's own text is sent");
}

#[tokio::test]
async fn with_a_trusted_log_only_new_messages_are_sent_and_the_mismatch_is_reported() {
    let options =
        HistoryOptions::new().policies(Policies::new().on_transcript_mismatch(OnTranscriptMismatch::TrustLog));
    let mut caller = Caller { engine: Engine::with_options(MemoryStore::new(), options), messages: vec![] };
    caller.say(&[Message::user("u0")], r#"{"role":"assistant","content":"a0"}"#).await;
    caller.messages = vec![Message::user("u0"), Message::assistant("edited"), Message::user("u1")];
    let turn = caller.begin().await.unwrap();
    assert_eq!(turn.context(), [Message::user("u0"), Message::assistant("a0"), Message::user("u1")]);
    let report = turn.commit(Reply::new(Message::assistant("a1"))).await.unwrap();
    assert_eq!(report.transcript_mismatch.map(|mismatch| mismatch.position), Some(1));

    let sound = [Message::user("u0"), Message::assistant("a0"), Message::user("u1"), Message::assistant("a1")];
    caller.messages = [&sound[..], &[Message::user("u2")]].concat();
    let turn = caller.begin().await.unwrap();
    assert_eq!(turn.context(), caller.messages);
    let report = turn.commit(Reply::new(Message::assistant("a2"))).await.unwrap();
    assert_eq!(report.transcript_mismatch, None);
}

#[tokio::test]
async fn with_a_trusted_log_results_of_unknown_calls_are_refused() {
    let options =
        HistoryOptions::new().policies(Policies::new().on_transcript_mismatch(OnTranscriptMismatch::TrustLog));
    let mut caller = Caller { engine: Engine::with_options(MemoryStore::new(), options), messages: vec![] };
    caller.say(&[Message::user("u0")], r#"{"role":"assistant","content":"a0"}"#).await;
    caller.messages = vec![Message::user("u0"), Message::from_json(calls("x")).unwrap(), Message::tool("x", "r")];
    let Err(HistoryError::Input(_)) = caller.begin().await else { panic!("it began") };
}
