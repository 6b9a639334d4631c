//! Callers that resend what they have, at the engine.

#![allow(clippy::unwrap_used)] // A test may.

use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message, Policies, Reply,
    Turn, TurnInput,
    engine::InputMode,
    policy::{OnLoadFailure, OnTranscriptMismatch},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

/// A caller that keeps its own list and sends all of it each time.
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

    /// Says something and takes the reply into its list, less a field that its types do not know.
    async fn say(&mut self, input: &[Message], reply: &str) {
        self.messages.extend_from_slice(input);
        let turn = self.begin().await.unwrap();
        assert_eq!(turn.context(), self.messages, "what the caller has is what is sent");
        self.messages.push(Message::from_json(reply.replace(r#","reasoning_content":"r""#, "")).unwrap());
        turn.commit(Reply::new(Message::from_json(reply).unwrap())).await.unwrap();
    }
}

fn calls(id: &str) -> String {
    format!(
        r#"{{"role":"assistant","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{"}}}}]}}"#
    )
}

#[tokio::test]
async fn a_tool_loop_that_resends_everything_is_stored_once() {
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
async fn fields_that_the_caller_has_dropped_stay_in_what_is_sent() {
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
    let Err(HistoryError::Transcript(parted)) = caller.begin().await else { panic!("it began") };
    assert_eq!((parted.position, parted.seq.map(|seq| seq.get())), (0, Some(0)));
}

#[tokio::test]
async fn a_transcript_stands_for_a_history_that_cannot_be_loaded() {
    let store = FaultStore::new(MemoryStore::new());
    let options = HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
    let mut caller = Caller { engine: Engine::with_options(store.clone(), options), messages: vec![] };
    caller.say(&[Message::user("u0")], &calls("x")).await;
    store.fail(Op::Load, 1, Fault::Unavailable);
    caller.say(&[Message::tool("x", "r")], r#"{"role":"assistant","content":"a"}"#).await;
    assert_eq!(store.conversation(&id()).messages().await.unwrap(), caller.messages, "only what is new is stored");
}

#[tokio::test]
async fn a_caller_that_trims_its_replies_goes_on_and_the_log_keeps_them_as_they_were() {
    let store = MemoryStore::new();
    let mut caller = Caller { engine: Engine::new(store.clone()), messages: vec![] };
    caller.say(&[Message::user("u0")], r#"{"role":"assistant","content":"\n a0 \n"}"#).await;
    caller.messages[1] = Message::assistant(caller.messages[1].text().trim());
    caller.messages.push(Message::user("u1"));
    let turn = caller.begin().await.unwrap();
    assert_eq!(turn.window()[1].text(), "\n a0 \n", "the log's own text is sent");
}

#[tokio::test]
async fn where_the_log_is_trusted_only_what_is_new_is_sent_and_the_report_says_so() {
    let options =
        HistoryOptions::new().policies(Policies::new().on_transcript_mismatch(OnTranscriptMismatch::TrustLog));
    let mut caller = Caller { engine: Engine::with_options(MemoryStore::new(), options), messages: vec![] };
    caller.say(&[Message::user("u0")], r#"{"role":"assistant","content":"a0"}"#).await;
    caller.messages = vec![Message::user("u0"), Message::assistant("edited"), Message::user("u1")];
    let turn = caller.begin().await.unwrap();
    assert_eq!(turn.context(), [Message::user("u0"), Message::assistant("a0"), Message::user("u1")]);
    let report = turn.commit(Reply::new(Message::assistant("a1"))).await.unwrap();
    assert_eq!(report.transcript_mismatch.map(|parted| parted.position), Some(1));

    let sound = [Message::user("u0"), Message::assistant("a0"), Message::user("u1"), Message::assistant("a1")];
    caller.messages = [&sound[..], &[Message::user("u2")]].concat();
    let turn = caller.begin().await.unwrap();
    assert_eq!(turn.context(), caller.messages);
    let report = turn.commit(Reply::new(Message::assistant("a2"))).await.unwrap();
    assert_eq!(report.transcript_mismatch, None);
}

#[tokio::test]
async fn results_for_calls_that_a_trusted_log_does_not_have_are_refused() {
    let options =
        HistoryOptions::new().policies(Policies::new().on_transcript_mismatch(OnTranscriptMismatch::TrustLog));
    let mut caller = Caller { engine: Engine::with_options(MemoryStore::new(), options), messages: vec![] };
    caller.say(&[Message::user("u0")], r#"{"role":"assistant","content":"a0"}"#).await;
    caller.messages = vec![Message::user("u0"), Message::from_json(calls("x")).unwrap(), Message::tool("x", "r")];
    let Err(HistoryError::Input(_)) = caller.begin().await else { panic!("it began") };
}
