//! One log behind both async-openai doors: the typed layer and the client with history inside, over one real server.

#![allow(clippy::unwrap_used)] // A test may.

use std::collections::HashMap;

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    traits::RequestOptionsBuilder as _,
    types::chat::{ChatCompletionRequestMessage, CreateChatCompletionRequest},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tests::check;
use tower::{Layer as _, Service as _};
use tower_chat_history::{
    ChatHistory, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, HistoryStoreExt as _, InConversation,
    InputMode, MemoryStore, Message, ReportHandle,
};
use tower_chat_history_openai::{
    ChatService, OpenAi,
    client::{CONVERSATION_ID, OpenAiHistory},
};
use tower_chat_history_test::{MockServer, Replies, Reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Door {
    Typed,
    Client,
}

struct Doors {
    server: MockServer,
    store: MemoryStore,
    typed: ChatHistory<ChatService<OpenAIConfig>, OpenAi>,
    client: Client<OpenAIConfig>,
    last_report: Option<ReportHandle>,
}

fn id() -> ConversationId {
    ConversationId::new(["doors"]).unwrap()
}

impl Doors {
    async fn open(replies: Replies) -> Self {
        let server = MockServer::start(replies).await.unwrap();
        let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
        let store = MemoryStore::new();
        let engine = Engine::with_options(store.clone(), HistoryOptions::new());
        let layer = ChatHistoryLayer::from_engine(engine.clone(), OpenAi::new());
        let typed = layer.layer(ChatService::new(Client::with_config(config.clone())));
        let client = OpenAiHistory::from_engine(engine).input_mode(InputMode::New).client(config);
        Self { server, store, typed, client, last_report: None }
    }

    /// Sends a head and this input, and returns the calls of the reply.
    async fn send(&mut self, door: Door, input: &[Value]) -> Result<Vec<String>, OpenAIError> {
        let messages = [json!({"role": "system", "content": "s"})].into_iter().chain(input.iter().cloned());
        let messages: Vec<ChatCompletionRequestMessage> =
            messages.map(|message| serde_json::from_value(message).unwrap()).collect();
        let request =
            CreateChatCompletionRequest { model: "m".into(), messages, ..CreateChatCompletionRequest::default() };
        let response = match door {
            Door::Typed => {
                let (call, report) = InConversation::new(id(), request).with_report();
                self.last_report = Some(report);
                self.typed.call(call).await.unwrap()
            }
            Door::Client => self.client.chat().header(CONVERSATION_ID, id().as_str())?.create(request).await?,
        };
        let reply = serde_json::to_value(&response.choices[0].message).unwrap();
        let calls = reply["tool_calls"].as_array().cloned().unwrap_or_default();
        Ok(calls.into_iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect())
    }

    /// The last prompt without its input, byte for byte.
    fn prefix(&self, input: usize) -> Vec<String> {
        let prompt = self.server.requests().last().unwrap().messages();
        prompt[..prompt.len() - input].iter().map(|message| message.json().to_owned()).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Question,
    /// A question that the model answers with that many parallel calls, and their results, the latter through this door.
    Tools(usize, Door),
    /// The same, and the results never come.
    Abandoned(usize),
}

fn any_door() -> impl Strategy<Value = Door> {
    prop::sample::select(vec![Door::Typed, Door::Client])
}

fn any_steps() -> impl Strategy<Value = Vec<(Door, Step)>> {
    let step = prop_oneof![
        Just(Step::Question),
        (1usize..4, any_door()).prop_map(|(calls, door)| Step::Tools(calls, door)),
        (1usize..4).prop_map(Step::Abandoned),
    ];
    prop::collection::vec((any_door(), step), 1..8)
}

/// Asks for as many calls as the question says, with a field that only the provider knows.
fn replies() -> Replies {
    Replies::rules(|messages: &[Message]| {
        let last = messages.last().unwrap();
        let calls: usize = if last.is_tool_result() { 0 } else { last.text().parse().unwrap() };
        let calls = (0..calls).map(|call| (format!("call-{}-{call}", messages.len()), "f".to_owned(), "{".to_owned()));
        let reply = match calls.len() {
            0 => Reply::text(format!("after {}", messages.len())),
            _ => Reply::calls(calls),
        };
        reply.field("reasoning_content", "r")
    })
}

/// Invariant 10, first half: without compaction, what stands before the input is a byte prefix of what stands there in the
/// same door's next prompt, whichever door was used in between.
#[tokio::test(flavor = "multi_thread")]
async fn invariant_10_every_prompt_is_a_prefix_of_the_same_door_s_next() {
    check(12, any_steps(), async |steps| {
        let mut doors = Doors::open(replies()).await;
        let mut seen: HashMap<Door, Vec<String>> = HashMap::new();
        let mut last: Option<(Door, Vec<String>)> = None;
        let mut compare = |doors: &Doors, door: Door, input: usize| {
            let prefix = doors.prefix(input);
            // Twice in a row through one door, the input that was sent comes back as it was sent.
            if let Some((_, whole)) = last.take_if(|(before, _)| *before == door) {
                assert!(prefix.starts_with(&whole), "{whole:#?} is no prefix of {prefix:#?}");
            }
            last = Some((door, doors.prefix(0)));
            if let Some(before) = seen.insert(door, prefix.clone()) {
                assert!(prefix.starts_with(&before), "{before:#?} is no prefix of {prefix:#?}");
            }
        };
        for (door, step) in steps {
            let calls = match step {
                Step::Question => 0,
                Step::Tools(calls, _) | Step::Abandoned(calls) => calls,
            };
            let asked = doors.send(door, &[json!({"role": "user", "content": calls.to_string()})]).await.unwrap();
            compare(&doors, door, 1);
            if let Step::Tools(_, door) = step {
                let result = |id: &String| json!({"role": "tool", "tool_call_id": id, "content": "r"});
                doors.send(door, &asked.iter().map(result).collect::<Vec<_>>()).await.unwrap();
                compare(&doors, door, asked.len());
            }
        }
    });
}

/// What a provider adds survives the client door byte for byte; the typed door leaves it out and says so.
#[tokio::test]
async fn what_only_the_provider_knows_is_sent_by_one_door_and_reported_by_the_other() {
    let mut doors = Doors::open(replies()).await;
    let asked = doors.send(Door::Client, &[json!({"role": "user", "content": "2"})]).await.unwrap();
    let results: Vec<Value> =
        asked.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "r"})).collect();

    // A tool turn that one door began and the other ends.
    doors.send(Door::Typed, &results).await.unwrap();
    assert!(!doors.prefix(2).concat().contains("reasoning_content"));
    let report = doors.last_report.take().unwrap().await.unwrap();
    assert_eq!(report.downgraded, 1);

    doors.send(Door::Client, &[json!({"role": "user", "content": "0"})]).await.unwrap();
    let log = doors.store.conversation(&id()).messages().await.unwrap();
    let sent = doors.prefix(1);
    let stored: Vec<&str> = log[..log.len() - 2].iter().map(Message::json).collect();
    assert_eq!(sent[1..], stored, "head, then the log as it is");
    assert!(sent[2].contains(r#""reasoning_content":"r""#), "{}", sent[2]);
}
