//! A terminal chat that remembers: `cargo run -p examples --bin chat`.
//!
//! `--via` selects one of four ways to call the model:
//!
//! | `--via` | API | client | key and base URL |
//! |---|---|---|---|
//! | `typed` | chat completions | a service around async-openai's client | `OPENAI_API_KEY`, `OPENAI_BASE_URL` |
//! | `client` | chat completions | async-openai, with the layer inside of its client | as for `typed` |
//! | `messages` | Anthropic Messages | an HTTP client without an SDK | `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL` |
//! | `responses` | OpenAI Responses | an HTTP client without an SDK | `OPENAI_API_KEY`, `OPENAI_BASE_URL` |
//!
//! Without the key, the client sends its requests to a mock model in the same process. The mock model's answers depend
//! only on the messages that it receives, so it can remember only what the layer sends. A conversation stays in the
//! format of its first message: `typed` and `client` can continue each other's conversations.
//!
//! With `--summarize`, messages that no longer fit into the model's context window are summarized. With
//! `--context 400`, that happens after a few questions. Lines in brackets on stderr report how many messages were
//! summarized or left out. With `--recall`, the model is shown earlier messages again if a question needs them.
//! With `--recall-parts 1`, this includes those of other conversations whose ids begin with the same part.
//!
//! Input can be piped in, one line per turn. The `>` and the list of commands are not printed then.

mod memory;
mod session;
mod via;

use std::{error::Error, io::IsTerminal as _, num::NonZeroUsize, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use examples::StoreUrl;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tower_chat_history::{
    BoxError, ConversationId, HistoryError,
    recall::{Analyzer, LogRecall, LogSearch, SearchScope},
};
use tower_chat_history_test::Replies;

use self::{
    memory::Memory,
    session::{Answer, Session},
    via::{Model, Via},
};

/// Chat with a model that remembers the conversation, even after a restart.
#[derive(Parser)]
struct Args {
    /// Text form of the conversation's id: its parts, percent-encoded and joined by slashes
    #[arg(long, value_name = "ID", default_value = "chat/main")]
    conversation: ConversationId,
    /// URL of the store: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:chat.db")]
    store: StoreUrl,
    /// Way to call the model
    #[arg(long, value_enum, default_value_t = Via::Typed)]
    via: Via,
    /// Name of the model [default: $OPENAI_MODEL, or gpt-4o-mini; for Messages $ANTHROPIC_MODEL, or claude-haiku-5-5]
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
    /// Show also those of other conversations whose ids begin with the same number of parts. This includes --recall
    #[arg(long, value_name = "PARTS")]
    recall_parts: Option<NonZeroUsize>,
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

async fn run(args: Args) -> Result<ExitCode, BoxError> {
    let id = args.conversation;
    let store = args.store.open().await?;
    let model = Model::from_env(args.via, args.model, Replies::rules(memory::mock)).await?;
    eprintln!("{}", model.about());

    let interactive = std::io::stdin().is_terminal();
    if interactive {
        eprintln!("Commands: /history shows the conversation, /delete deletes it, /quit exits.");
    }

    let memory = Memory {
        context: args.context,
        summarizer: if args.summarize { Some(model.summarizer()?) } else { None },
        recall: match args.recall_parts {
            Some(parts) => {
                let store = Arc::new(Arc::clone(&store));
                Some(LogSearch::under(store, Analyzer::default(), SearchScope::parts(parts)).into())
            }
            None => args.recall.then(|| LogRecall::new(Arc::clone(&store))),
        },
    };
    let mut session = Session::new(args.via, store, model, id, memory)?;

    let mut lines = BufReader::new(tokio::io::stdin()).split(b'\n');
    let mut code = ExitCode::SUCCESS;
    loop {
        if interactive {
            eprint!("> ");
        }
        let Some(line) = lines.next_segment().await? else { break };
        let Ok(line) = String::from_utf8(line) else {
            eprintln!("chat: the line is not UTF-8");
            code = ExitCode::FAILURE;
            continue;
        };

        let answer = match line.trim() {
            "" => continue,
            "/quit" => break,
            "/history" => session.print_history().await,
            "/delete" => session.delete().await,
            text => session.ask(text).await,
        };

        match answer {
            Ok(Answer::Complete) => {}
            Ok(Answer::NotSaved(reason)) => {
                eprintln!("chat: {reason}");
                code = ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("chat: {}", with_causes(&*error));
                if let Some(advice) = advice(&*error) {
                    eprintln!("chat: {advice}");
                }
                code = ExitCode::FAILURE;
            }
        }
    }

    // Finish pending saves and summaries before the runtime shuts down.
    session.engine().drain(Duration::from_secs(60)).await?;
    session.print_notes();
    session.shutdown().await;
    Ok(code)
}

/// Returns what the user of this program can do about an error.
fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    match error.downcast_ref()? {
        HistoryError::OtherDialect(_) => {
            Some("continue with the --via that began it, or choose another --conversation")
        }
        HistoryError::DoesNotFit(_) => Some("choose a larger --context"),
        _ => None,
    }
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
