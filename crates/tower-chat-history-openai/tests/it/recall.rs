//! Recall by meaning, with the model and its embeddings over HTTP.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_openai::{
    Client,
    config::OpenAIConfig,
    types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest},
};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    ContextBudget, ConversationId, HistoryOptions, HistoryStoreExt as _, InConversation, MemoryStore, Message,
    middleware::{ChatHistory, ChatHistoryLayer},
    recall::{Analyzer, LogRecall, LogSearch, RecallOptions},
};
use tower_chat_history_openai::{ChatService, OpenAi, embedder};
use tower_chat_history_test::{ApiFailure, MockServer, Replies, Reply};

const PUPPY: &str = "My puppy is Rex.";
const KEY: &str = "I hid the silver key behind the greenhouse.";
/// It has no word in common with `PUPPY`.
const DOG: &str = "Which dog do I have?";

struct Chat {
    server: MockServer,
    service: ChatHistory<ChatService<OpenAIConfig>, OpenAi>,
    /// The outcome of each search, and the number of exchanges that it showed.
    recalls: Arc<Mutex<Vec<(&'static str, usize)>>>,
    id: ConversationId,
}

impl Chat {
    /// Starts a conversation whose first messages have left the window.
    async fn start() -> Self {
        let server = MockServer::start(Replies::rules(|_| Reply::text("Fine."))).await.unwrap();
        server.embeddings().synonyms(["dog", "puppy"]);
        let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
        let client = Client::with_config(config);
        let (store, id) = (MemoryStore::new(), ConversationId::new(["acme", "ann"]).unwrap());
        let mut messages = Vec::new();
        for text in [PUPPY, KEY].into_iter().chain([RATHER_LONG; 300]) {
            messages.extend([Message::user(text), Message::assistant("Sure, tell me more.")]);
        }
        store.conversation(&id).import(messages).await.unwrap();

        let embedder = Arc::new(embedder(client.clone(), "small", Some(1_024)));
        let search = LogSearch::new(Arc::new(store.clone()), Analyzer::default());
        let recall = LogRecall::from(search.by_meaning(embedder).least_cosine(0.2));
        let recalls = Arc::<Mutex<Vec<(&'static str, usize)>>>::default();
        let reported = Arc::clone(&recalls);
        let options = HistoryOptions::new()
            .context(ContextBudget::tokens(2_000))
            .recall(RecallOptions::new(recall).timeout(Duration::from_secs(60)))
            .on_turn(move |report| {
                if let Some(recall) = &report.recall {
                    reported.lock().unwrap().push((recall.outcome.kind(), recall.exchanges));
                }
            });
        let service = ChatHistoryLayer::with_options(store, OpenAi::new(), options).layer(ChatService::new(client));
        Self { server, service, recalls, id }
    }

    /// Asks a question. Returns the outcome of the search, and the message that was recalled.
    async fn ask(&self, question: &str) -> (&'static str, Option<String>) {
        let messages = vec![ChatCompletionRequestUserMessage::from(question).into()];
        let request = CreateChatCompletionRequest { model: "m".into(), messages, ..Default::default() };
        let call = InConversation::new(self.id.clone(), request);
        let response = self.service.clone().oneshot(call).await.unwrap();
        assert_eq!(response.choices[0].message.content.as_deref(), Some("Fine."));
        // The vectors are made in the background.
        self.service.engine().drain(Duration::from_secs(60)).await.unwrap();
        let prompt = self.server.prompts().pop().unwrap();
        let [.., before, _, input] = &prompt[..] else { panic!("{} messages", prompt.len()) };
        assert_eq!(input.text(), question);
        let recalled = before.text().starts_with("<earlier_messages").then(|| before.text().into_owned());
        let (outcome, exchanges) = self.recalls.lock().unwrap().pop().unwrap();
        assert_eq!(recalled.is_some(), exchanges > 0);
        (outcome, recalled)
    }
}

const RATHER_LONG: &str = "Next, the crew painted another old boat and waited for better weather at sea.";

#[tokio::test]
async fn a_fact_is_recalled_by_its_meaning() {
    let chat = Chat::start().await;
    assert_eq!(chat.ask(DOG).await, ("nothing", None), "there are no vectors yet");
    let embedded = chat.server.embeddings().requests().len();
    assert!(embedded > 1, "the question, and the messages before the window");
    let (outcome, recalled) = chat.ask(DOG).await;
    assert_eq!((outcome, recalled.unwrap().contains(PUPPY)), ("shown", true));
    let since = chat.server.embeddings().requests().len() - embedded;
    assert_eq!(since, 2, "the question, and what has left the window");
}

#[tokio::test]
async fn words_alone_decide_while_embeddings_fail() {
    let chat = Chat::start().await;
    chat.server.embeddings().fail_if(|_| Some(ApiFailure::new(403, "no")));
    assert_eq!(chat.ask(DOG).await, ("nothing", None));
    assert_eq!(chat.ask(DOG).await, ("nothing", None));
    let (outcome, recalled) = chat.ask("Where is the silver key?").await;
    assert_eq!((outcome, recalled.unwrap().contains(KEY)), ("shown", true));
}
