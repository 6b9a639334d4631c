//! A tool-calling agent that survives a crash.
//!
//! The model requests several tool calls at once. One of them fails, and its error is sent as its result:
//!
//! ```text
//! cargo run -p examples --bin tools -- "weather in Oslo, Lima and Atlantis?"
//! ```
//!
//! The agent stores nothing itself: each request has only the new messages, and the history layer adds the earlier
//! ones. If the process crashes between two requests, the next process resumes from the stored messages. `--crash`
//! exits at that moment:
//!
//! ```text
//! cargo run -p examples --bin tools -- --crash "weather in Oslo and Lima?"
//! cargo run -p examples --bin tools
//! ```

mod agent;
mod mock;
mod toolbox;

use std::process::ExitCode;

use clap::Parser;
use examples::{Provider, StoreUrl};
use tower_chat_history::{BoxError, ConversationId};

use self::agent::{Agent, Ended};

/// Answer a question with the help of tools.
#[derive(Parser)]
struct Args {
    /// Question to ask; without one, resume an interrupted conversation
    question: Option<String>,
    /// Exit after the model has requested tool calls, before the tools run
    #[arg(long)]
    crash: bool,
    /// Name of the conversation
    #[arg(long, default_value = "tools")]
    conversation: String,
    /// URL of the store: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:tools.db")]
    store: StoreUrl,
    /// Name of the model [default: $OPENAI_MODEL, or gpt-4o-mini]
    #[arg(long)]
    model: Option<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode, BoxError> {
    let args = Args::parse();
    let store = args.store.open().await?;
    let provider = Provider::from_env(args.model, mock::replies()).await?;
    eprintln!("{}", provider.about);

    let id = ConversationId::new(["tools", &args.conversation])?;
    let mut agent = Agent::new(store, &provider, id);
    let open = agent.open_calls().await?;
    let input = match (args.question, open.is_empty()) {
        // If tool calls are open, a new question abandons them: the layer sends a constant result for each.
        (Some(question), _) => agent::question(&question),
        (None, false) => {
            eprintln!("Resuming. Tool calls without a result: {}.", open.len());
            toolbox::run_all(&open).await
        }
        (None, true) => {
            eprintln!("There is nothing to resume. Ask a question.");
            return Ok(ExitCode::FAILURE);
        }
    };
    match agent.run(input, args.crash).await? {
        Ended::Answered(text) => {
            println!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Ended::Crashed => {
            eprintln!("Exiting as if crashed, before running the tools.");
            Ok(ExitCode::FAILURE)
        }
    }
}
