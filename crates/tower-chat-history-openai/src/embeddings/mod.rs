//! Embeddings by an async-openai client, for the search by meaning.

mod error;
mod order;
mod service;
mod split;

use async_openai::{Client, config::Config};
use tower_chat_history::recall::ServiceEmbedder;

pub use self::{
    error::EmbeddingError,
    service::{EmbeddingFuture, EmbeddingService},
};

/// Creates an embedder that calls a client, for the search of recall [by
/// meaning](tower_chat_history::recall#by-meaning).
///
/// `dimensions` shortens the vectors, if the model supports that (OpenAI's `text-embedding-3` models do). Without it,
/// they have the model's full length.
///
/// To add layers, for example a timeout, wrap an [`EmbeddingService`] in them, and pass it to [`ServiceEmbedder::new`].
///
/// ```
/// use std::sync::Arc;
///
/// use async_openai::{Client, config::OpenAIConfig};
/// use tower_chat_history::{
///     MemoryStore,
///     recall::{Analyzer, Embedder, LogRecall, LogSearch},
/// };
/// use tower_chat_history_openai::embedder;
/// use tower_chat_history_test::{MockServer, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let server = MockServer::start([Reply::text("Hello!")]).await?;
/// let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
///
/// let embedder = Arc::new(embedder(Client::with_config(config), "text-embedding-3-small", Some(256)));
/// assert_eq!(embedder.embed(vec!["Rex barks.".to_owned()]).await?[0].len(), 256);
///
/// let search = LogSearch::new(Arc::new(MemoryStore::new()), Analyzer::default());
/// let recall = LogRecall::from(search.by_meaning(embedder));
/// # let _ = recall;
/// # Ok(())
/// # }
/// ```
pub fn embedder<C: Config + Clone + 'static>(
    client: Client<C>,
    model: impl Into<String>,
    dimensions: Option<u32>,
) -> ServiceEmbedder<EmbeddingService<C>> {
    let mut service = EmbeddingService::new(client, model);
    if let Some(dimensions) = dimensions {
        service = service.dimensions(dimensions);
    }
    ServiceEmbedder::new(service)
}
