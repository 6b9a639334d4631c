//! A mock model over HTTP: a server for tests with the APIs of OpenAI and Anthropic.

mod body;
mod embeddings;
mod recorded;
mod routes;

use std::{
    fmt, io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tower_chat_history_core::Message;

pub use self::{embeddings::MockEmbeddings, recorded::RecordedRequest};
use crate::{replies::Replies, util::lock};

/// A server with the APIs of OpenAI and Anthropic on a free port of 127.0.0.1, for tests that include the HTTP client
/// and the bytes on the wire.
///
/// | path | API | refuses |
/// |---|---|---|
/// | `POST /v1/chat/completions` | chat completions | violations of the chat rules, or of those of a [provider](crate#providers) |
/// | `POST /v1/messages` | Anthropic's Messages API | violations of [its rules](crate::messages#rules), also a missing header `anthropic-version` |
/// | `POST /v1/responses` | OpenAI's Responses API | violations of [its rules](crate::responses#rules) |
/// | `POST /v1/embeddings` | OpenAI's embeddings | |
/// | `GET /v1/models` | the list of models | |
///
/// Chat completions and embeddings are also under Azure's `/openai/deployments/{any}`. Any other path is a 404 with
/// OpenAI's error object.
///
/// All three chat APIs take their replies from the same [`Replies`], and each API sends a [`Reply`](crate::Reply) in
/// its own format. If the body of a request has `"stream": true`, the reply is a stream of the API's server-sent
/// events. A `stream` that is neither a boolean nor null is refused with status 400. Errors have the form of the API.
/// Every chat request is recorded with its path, headers and body, including refused requests and retries. Requests for
/// [embeddings](Self::embeddings) are recorded apart, and use none of the replies.
///
/// Dropping the server stops it at once, with every connection. [`shutdown`](Self::shutdown) first completes the
/// replies in progress. Delays use tokio's timer. Do not pause tokio's clock: it would advance whenever the runtime
/// waits for the network.
///
/// ```
/// use std::time::Duration;
///
/// use tower_chat_history_test::{ApiFailure, MockServer, Replies, Reply, rules};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// // A rate limit, then a reply in chunks, then a connection that breaks.
/// let server = MockServer::start([
///     Reply::error(ApiFailure::rate_limited(Duration::from_secs(1))),
///     Reply::text("Fine, thanks.").chunk_chars(4),
///     Reply::text("As I was about to say").abort_after(2),
/// ])
/// .await?;
/// assert!(server.base_url().starts_with("http://127.0.0.1:"));
///
/// // Or a model that answers from the messages of the request.
/// let remembering = MockServer::start(Replies::rules(rules::remembering())).await?;
/// # server.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub struct MockServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    /// The loop that accepts connections and owns their tasks.
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    replies: Replies,
    requests: Mutex<Vec<RecordedRequest>>,
    embeddings: MockEmbeddings,
}

impl MockServer {
    /// Starts a server with these replies: a list, or [`Replies`]. It must be called within a tokio runtime with I/O
    /// and time enabled.
    ///
    /// # Errors
    ///
    /// Returns an error if no port of 127.0.0.1 can be bound.
    pub async fn start(replies: impl Into<Replies>) -> io::Result<Self> {
        Self::start_with(replies.into()).await
    }

    // This is a separate function, so that the future is `Send` for every type that the caller passes.
    async fn start_with(replies: Replies) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { replies, requests: Mutex::default(), embeddings: MockEmbeddings::default() });
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(serve(listener, routes::router(Arc::clone(&shared)), stopped));
        Ok(Self { address, shared, stop, task })
    }

    /// Returns the base URL of the API, for the configuration of a client: `http://127.0.0.1:PORT/v1`. A client for
    /// Azure takes the [address](Self::address) only: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the source of the replies, to add replies or to count those left.
    #[must_use]
    pub fn replies(&self) -> &Replies {
        &self.shared.replies
    }

    /// Returns the embeddings API, to make its requests fail or to see them.
    #[must_use]
    pub fn embeddings(&self) -> &MockEmbeddings {
        &self.shared.embeddings
    }

    /// Returns all chat requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.shared.requests).clone()
    }

    /// Returns the messages of all chat requests so far. They are empty for a body that could not be decoded.
    #[must_use]
    pub fn prompts(&self) -> Vec<Vec<Message>> {
        lock(&self.shared.requests).iter().map(RecordedRequest::messages).collect()
    }

    /// Returns the messages of all chat requests so far, each prompt as a JSON array. The array is empty for a body
    /// that could not be decoded. A message that has more than 127 levels is a text with its JSON.
    #[must_use]
    pub fn prompts_json(&self) -> Vec<Value> {
        let prompts = self.prompts();
        prompts.iter().map(|prompt| prompt.iter().map(json_of).collect()).collect()
    }

    /// Stops accepting connections, closes idle ones, and waits until the replies in progress are sent. Dropping the
    /// future stops the server at once.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        // If the loop panicked, it has also stopped.
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

/// Returns the JSON of a message, or a text with it if it is nested too deeply.
fn json_of(message: &Message) -> Value {
    serde_json::from_str(message.json()).unwrap_or_else(|_| Value::from(message.json()))
}

/// Serves until the stop signal, and then until every connection is closed.
///
/// axum's own `serve` is not used, because its connections continue after it is aborted. Here, aborting this function
/// drops the set of connections, and they are aborted too.
async fn serve(listener: TcpListener, router: Router, stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut stopped = pin!(stopped(stop.clone()));
    loop {
        tokio::select! {
            () = &mut stopped => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone(), stop.clone()));
                }
                // Too many open files, or a client that left at once. The server continues.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }

    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, router: Router, stop: watch::Receiver<bool>) {
    // Sends every chunk when it is written. If this fails, chunks are only delayed.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move { tower_service::Service::call(&mut router, request).await }
    });
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    // An error means that the client left, or that the reply aborts the connection. The client notices both.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stopped(stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the server was dropped.
    let _ = stop.wait_for(|stop| *stop).await;
}
