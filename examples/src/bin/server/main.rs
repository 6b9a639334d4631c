//! A chat server for several users: `cargo run -p examples --bin server`.
//!
//! ```text
//! POST   /conversations/{name}/messages  {"text": "…"}   the reply, as server-sent events
//! GET    /conversations/{name}/messages                  the whole log
//! DELETE /conversations/{name}                           forgets it
//! ```
//!
//! Every request names its user in `x-user`, as a proxy that has authenticated it would. A conversation is known by user
//! and name together: another user's conversation of the same name is another one. A `POST` may carry an
//! `idempotency-key`: repeated under it, it is answered from the log.
//!
//! ```text
//! curl -N localhost:3000/conversations/demo/messages -H 'x-user: nemo' -H 'content-type: application/json' \
//!      -d '{"text": "my name is Nemo"}'
//! ```

mod failure;
mod retry;
mod routes;
mod stack;

use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};

use clap::Parser;
use examples::{Provider, StoreUrl};
use tokio::net::TcpListener;
use tower_chat_history_test::{Replies, rules};

/// Serves a model that remembers each user's conversations.
#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Where history is kept: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:server.db")]
    store: StoreUrl,
    /// The model to ask for [default: OPENAI_MODEL, else gpt-4o-mini]
    #[arg(long)]
    model: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let store = args.store.open().await?;
    let provider = Provider::from_env(args.model, Replies::rules(rules::remembering())).await?;
    eprintln!("{}", provider.about);

    let (chat, engine) = stack::build(Arc::clone(&store), provider.client());
    let app = routes::router(routes::App { chat, store, model: provider.model.clone() });
    let listener = TcpListener::bind(args.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(async {
            // Without a signal to wait for, the server runs until it is killed.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
        .await?;

    // Whoever left while an answer was being made still finds it when they come back.
    if let Err(left) = engine.drain(Duration::from_secs(30)).await {
        eprintln!("server: {left}");
    }
    provider.shutdown().await;
    Ok(())
}
