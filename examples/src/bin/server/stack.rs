//! The stack of layers: history, retry, timeout, concurrency limit, client.

use std::{sync::Arc, time::Duration};

use async_openai::{
    Client,
    config::Config,
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionRequest},
};
use tower::{ServiceBuilder, util::BoxCloneSyncService};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, Engine, HistoryOptions, HistoryStore, InConversation, Policies, policy::OnInterruption,
};
use tower_chat_history_openai::{ChatStreamService, OpenAi};

use crate::retry::Transient;

pub(crate) type Chat =
    BoxCloneSyncService<InConversation<CreateChatCompletionRequest>, ChatCompletionResponseStream, BoxError>;

pub(crate) fn build(store: Arc<dyn HistoryStore>, client: Client<Arc<dyn Config>>) -> (Chat, Engine) {
    // A browser that disconnects during an answer should find the answer when it reconnects.
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::Detach));
    let history = ChatHistoryLayer::with_options(store, OpenAi::new(), options);
    let engine = history.engine().clone();
    let chat = ServiceBuilder::new()
        .layer(history)
        // Inside the history layer: all attempts belong to the same turn.
        .retry(Transient::attempts(3))
        // Limits the time of each attempt until its stream begins.
        .timeout(Duration::from_secs(30))
        .concurrency_limit(64)
        .service(ChatStreamService::new(client));
    (BoxCloneSyncService::new(chat), engine)
}
