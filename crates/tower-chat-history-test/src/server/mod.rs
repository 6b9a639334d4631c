//! A model behind HTTP: an OpenAI-compatible server for tests.

mod body;
mod recorded;
mod routes;
mod serve;

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tower_chat_history_core::Message;

pub use self::recorded::RecordedRequest;
use crate::{Replies, lock};

/// An OpenAI-compatible server on a free port of 127.0.0.1, to test a service down to the bytes on the wire.
///
/// It serves `POST /v1/chat/completions` (whole, or as server-sent events if the body says `"stream": true`), the same at
/// Azure's `POST /openai/deployments/{any}/chat/completions`, and `GET /v1/models`; everything else is a 404 in OpenAI's error
/// shape. Prompts that break the chat rules are refused, see [`Replies`]. Every chat request is recorded with its path, its
/// headers and its body as it came, also those that are refused and those that a client repeats.
///
/// Dropping the server stops it at once, with every connection; [`shutdown`](Self::shutdown) lets answers under way end.
/// Delays are sleeps of tokio. Beware of a paused clock, though: it runs ahead whenever the runtime waits for the network.
///
/// ```
/// use std::time::Duration;
///
/// use tower_chat_history_test::{ApiFailure, MockServer, Replies, Reply, rules};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// // Busy at first, then an answer in pieces, then a connection that breaks.
/// let server = MockServer::start([
///     Reply::error(ApiFailure::rate_limited(Duration::from_secs(1))),
///     Reply::text("Fine, thanks.").chunk_chars(4),
///     Reply::text("As I was about to say").abort_after(2),
/// ])
/// .await?;
/// assert!(server.base_url().starts_with("http://127.0.0.1:"));
///
/// // Or a model that remembers what it is sent.
/// let remembering = MockServer::start(Replies::rules(rules::remembering())).await?;
/// # server.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub struct MockServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    /// The loop that accepts connections, and owns the task of each.
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    replies: Replies,
    requests: Mutex<Vec<RecordedRequest>>,
}

impl MockServer {
    /// Starts a server that gives these replies: a list of them, or [`Replies`]. It must be called within a tokio runtime
    /// with I/O and time enabled.
    ///
    /// # Errors
    ///
    /// When no port of 127.0.0.1 can be bound.
    pub async fn start(replies: impl Into<Replies>) -> io::Result<Self> {
        Self::start_with(replies.into()).await
    }

    // Apart from `start`, so that the future does not depend on whether the caller's type is `Send`.
    async fn start_with(replies: Replies) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { replies, requests: Mutex::default() });
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(serve::serve(listener, routes::router(Arc::clone(&shared)), stopped));
        Ok(Self { address, shared, stop, task })
    }

    /// The base of the API, to configure a client with: `http://127.0.0.1:PORT/v1`. A client for Azure takes the
    /// [address](Self::address) alone: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where the server listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the replies come from, to add some or to ask how many are left.
    #[must_use]
    pub fn replies(&self) -> &Replies {
        &self.shared.replies
    }

    /// Every chat request so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.shared.requests).clone()
    }

    /// The messages of every chat request so far; none for a body that could not be read.
    #[must_use]
    pub fn prompts(&self) -> Vec<Vec<Message>> {
        lock(&self.shared.requests).iter().map(RecordedRequest::messages).collect()
    }

    /// The messages of every chat request so far, each as a JSON array; an empty one for a body that could not be read.
    #[must_use]
    pub fn prompts_json(&self) -> Vec<Value> {
        lock(&self.shared.requests).iter().map(|request| json!(request.messages())).collect()
    }

    /// Stops accepting, closes idle connections, and waits until the answers under way are sent. Drop the future to give
    /// up waiting: that stops the server at once.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        // An error would mean that the loop panicked, and then it has stopped as well.
        let _ = (&mut self.task).await;
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for MockServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = lock(&self.shared.requests).len();
        f.debug_struct("MockServer")
            .field("address", &self.address)
            .field("requests", &requests)
            .finish_non_exhaustive()
    }
}
