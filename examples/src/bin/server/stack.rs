//! The stack of layers: history, retry, timeout, concurrency limit, client.

use std::{pin::Pin, sync::Arc, time::Duration};

use async_openai::{
    Client,
    config::Config,
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionRequest},
};
use tower::{ServiceBuilder, retry::Policy, timeout::error::Elapsed, util::BoxCloneSyncService};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, Engine, HistoryOptions, HistoryStore, InConversation, Policies, policy::OnInterruption,
};
use tower_chat_history_openai::{ChatStreamService, OpenAi};

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
        .retry(RetryTransient::attempts(3))
        // Limits the time of each attempt until its stream begins.
        .timeout(Duration::from_secs(30))
        .concurrency_limit(64)
        .service(ChatStreamService::new(client));
    (BoxCloneSyncService::new(chat), engine)
}

/// Retries attempts that timed out or lost their connection. Rate limits and server errors are retried by the client
/// itself, which reads from the response how long to wait.
#[derive(Clone, Debug)]
struct RetryTransient {
    left: u32,
}

impl RetryTransient {
    const fn attempts(attempts: u32) -> Self {
        Self { left: attempts.saturating_sub(1) }
    }
}

impl<Request: Clone, Response> Policy<Request, Response, BoxError> for RetryTransient {
    type Future = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn retry(&mut self, _: &mut Request, result: &mut Result<Response, BoxError>) -> Option<Self::Future> {
        let transient = result.as_ref().is_err_and(|error| error.is::<Elapsed>() || lost_connection(error));
        if !transient || self.left == 0 {
            return None;
        }

        self.left -= 1;
        Some(Box::pin(tokio::time::sleep(Duration::from_millis(200))))
    }

    fn clone_request(&mut self, request: &Request) -> Option<Request> {
        Some(request.clone())
    }
}

fn lost_connection(error: &BoxError) -> bool {
    matches!(error.downcast_ref(), Some(async_openai::error::OpenAIError::Reqwest(_)))
}
