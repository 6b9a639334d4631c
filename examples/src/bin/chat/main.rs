//! A terminal chat that remembers: `cargo run -p examples --bin chat`.
//!
//! The history layer wraps the real async-openai client. Without `OPENAI_API_KEY`, the client sends its requests to a
//! mock model in the same process. The mock model's answers depend only on the messages that it receives, so it can
//! remember only what the layer sends.
//!
//! With `--summarize`, messages that no longer fit into the model's context window are summarized. With
//! `--context 400`, that happens after a few questions. Lines in brackets on stderr report how many messages were
//! summarized or left out. With `--recall`, the model is shown earlier messages again if a question needs them.
//!
//! Input can be piped in, one line per turn. The `>` and the list of commands are not printed then.

mod memory;
mod notes;
mod session;

use std::{error::Error, io::IsTerminal as _, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use examples::{Provider, StoreUrl};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tower_chat_history::{ConversationId, recall::LogRecall};
use tower_chat_history_test::Replies;

use self::{
    memory::Memory,
    session::{Answer, Integration, Session},
};

/// Chat with a model that remembers the conversation, even after a restart.
#[derive(Parser)]
struct Args {
    /// Name of the conversation
    #[arg(long, default_value = "main")]
    conversation: String,
    /// URL of the store: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:chat.db")]
    store: StoreUrl,
    /// Integration of the history layer with async-openai
    #[arg(long, value_enum, default_value_t = Integration::Typed)]
    integration: Integration,
    /// Name of the model [default: $OPENAI_MODEL, or gpt-4o-mini]
    #[arg(long)]
    model: Option<String>,
    /// Context window, for prompt and reply together [default: the model's]
    #[arg(long, value_name = "TOKENS")]
    context: Option<u32>,
    /// Summarize messages that no longer fit into the context window
    #[arg(long)]
    summarize: bool,
    /// Show earlier messages to the model again if a question needs them
    #[arg(long)]
    recall: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("chat: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let id = ConversationId::new(["chat", &args.conversation])?;
    let store = args.store.open().await?;
    let provider = Provider::from_env(args.model, Replies::rules(memory::mock)).await?;
    let interactive = std::io::stdin().is_terminal();
    eprintln!("{}", provider.about);
    if interactive {
        eprintln!("Commands: /history shows the conversation, /delete deletes it, /quit exits.");
    }

    let memory = Memory {
        context: args.context,
        summarizer: args.summarize.then(|| provider.summarizer()),
        recall: args.recall.then(|| LogRecall::new(Arc::clone(&store))),
    };
    let mut session = Session::new(args.integration, store, &provider, id, memory);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut code = ExitCode::SUCCESS;
    loop {
        if interactive {
            eprint!("> ");
        }
        let Some(line) = lines.next_line().await? else { break };
        let done = match line.trim() {
            "" => continue,
            "/quit" => break,
            "/history" => session.print_history().await,
            "/delete" => session.delete().await,
            text => session.ask(text).await,
        };
        match done {
            Ok(Answer::Complete) => {}
            Ok(Answer::NotSaved(reason)) => {
                eprintln!("chat: {reason}");
                code = ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("chat: {}", with_causes(&*error));
                code = ExitCode::FAILURE;
            }
        }
    }
    // Finish pending saves and summaries before the runtime shuts down.
    session.engine().drain(Duration::from_secs(60)).await?;
    session.print_notes();
    provider.shutdown().await;
    Ok(code)
}

/// Returns the text of an error with its causes. The errors of the HTTP client do not include theirs.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let shown = cause.to_string();
        if !text.ends_with(&shown) {
            text = format!("{text}: {shown}");
        }
        source = cause.source();
    }
    text
}
