//! A reverse proxy with memory, for any client in any language: `cargo run -p examples --bin proxy`.
//!
//! Chat completions, Anthropic's Messages API and OpenAI's Responses API have history: the proxy adds the earlier
//! messages of the conversation, whole or streamed. A header names the conversation. All other requests pass through.
//!
//! ```text
//! curl localhost:3000/v1/messages \
//!      -H 'x-chat-history-conversation: demo/1' -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' \
//!      -d '{"model": "claude-haiku-5-5", "max_tokens": 99, "messages": [{"role": "user", "content": "My name is Nemo."}]}'
//! curl -N localhost:3000/v1/responses \
//!      -H 'x-chat-history-conversation: demo/2' -H 'content-type: application/json' \
//!      -d '{"model": "gpt-5.5", "stream": true, "store": false, "input": "My name is Nemo."}'
//! ```
//!
//! Send one of them again with "What is my name?". With `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`, the proxy calls the
//! providers (at `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL`), and adds the key to requests that have none. Without a
//! key, a mock model in this process answers.
//!
//! Any sender can name any conversation here. If that is not what you want, take the conversation from your own login:
//! insert a `ConversationId` into the request's extensions, and set `HttpHistory::extract_by(FromExtensions::new())`.

mod upstream;

use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use clap::Parser;
use examples::{StoreUrl, interrupted};
use tokio::net::TcpListener;
use tower::{Layer as _, ServiceExt as _, util::BoxCloneSyncService};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, HistoryOptions, Policies,
    http::{ChatWire, HistoryBody, HttpHistory, error_response},
    policy::OnInterruption,
};

use self::upstream::Upstream;

/// Serve providers' APIs with memory.
#[derive(Parser)]
struct Args {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// URL of the store: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:proxy.db")]
    store: StoreUrl,
}

#[derive(Clone)]
struct App {
    chat: BoxCloneSyncService<Request, Response<HistoryBody>, BoxError>,
    adapter: HttpHistory,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let upstream = Upstream::from_env().await?;
    eprintln!("{}", upstream.about);

    // A client that disconnects during an answer finds it in the conversation later.
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::Detach));
    let adapter = HttpHistory::new();
    let layer = ChatHistoryLayer::with_options(args.store.open().await?, adapter.clone(), options);
    let engine = layer.engine().clone();
    let app = App { chat: BoxCloneSyncService::new(layer.layer(upstream.client()?)), adapter };

    let interrupted = interrupted();
    let listener = TcpListener::bind(args.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, Router::new().fallback(forward).with_state(app)).with_graceful_shutdown(interrupted).await?;

    // Finish the saves, and the answers of clients that have disconnected.
    engine.drain(Duration::from_secs(30)).await?;
    upstream.shutdown().await;
    Ok(())
}

/// Forwards a request. An error of the layer becomes a response in the form of the API.
async fn forward(State(app): State<App>, request: Request) -> Response {
    if let Some(status) = upstream::refused(&request) {
        return status.into_response();
    }

    let wire = app.adapter.wire(request.method(), request.uri());
    match app.chat.oneshot(request).await {
        Ok(response) => response.map(Body::new),
        Err(error) => {
            eprintln!("proxy: {error}");
            error_response(&*error, wire.unwrap_or(&ChatWire::new())).map(Body::from)
        }
    }
}
