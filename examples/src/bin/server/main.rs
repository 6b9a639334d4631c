//! A chat server for several users: `cargo run -p examples --bin server`.
//!
//! ```text
//! POST   /conversations/{name}/messages   sends {"text": "…"}, streams the reply
//! GET    /conversations/{name}/messages   returns all messages
//! DELETE /conversations/{name}            deletes the conversation
//! ```
//!
//! The header `x-user` names the user of a request; in production, an authenticating proxy would set it. A conversation
//! is identified by user and name together, so users never share a conversation. The reply is streamed as server-sent
//! events. A `POST` may have the header `idempotency-key`: if the request is repeated with the same key, the reply is
//! read from the log, and the model is not called.
//!
//! ```text
//! cargo run -p examples --bin server
//! curl -N localhost:3000/conversations/demo/messages \
//!      -H 'x-user: nemo' -H 'content-type: application/json' -d '{"text": "my name is Nemo"}'
//! ```

mod routes;
mod stack;

use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};

use clap::Parser;
use examples::{Provider, StoreUrl, interrupted};
use tokio::net::TcpListener;
use tower_chat_history::HistoryStore;
use tower_chat_history_test::{Replies, rules};

/// Serve a model that remembers each user's conversations.
#[derive(Parser)]
struct Args {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// URL of the store: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:server.db")]
    store: StoreUrl,
    /// Name of the model [default: $OPENAI_MODEL, or gpt-4o-mini]
    #[arg(long)]
    model: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let store: Arc<dyn HistoryStore> = args.store.open().await?;
    let provider = Provider::from_env(args.model, Replies::rules(rules::remembering())).await?;
    eprintln!("{}", provider.about);

    let (chat, engine) = stack::build(Arc::clone(&store), provider.client());
    let app = routes::router(routes::App { chat, store, model: provider.model.clone() });

    let interrupted = interrupted();
    let listener = TcpListener::bind(args.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(interrupted).await?;

    // Finish the replies of users who have disconnected, so that they find them in the log later.
    if let Err(error) = engine.drain(Duration::from_secs(30)).await {
        eprintln!("server: {error}");
    }
    provider.shutdown().await;
    Ok(())
}
