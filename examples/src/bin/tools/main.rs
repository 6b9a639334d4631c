//! An agent with tools that survives a crash: `cargo run -p examples --bin tools -- "weather in Oslo, Lima and Atlantis?"`.
//!
//! The model asks for several tools at once; one of them fails, which is a result like any other. The loop holds no state
//! of its own: each call sends nothing but what is new, and the history layer knows the rest. So a process that dies in the
//! middle is resumed by the next one, from what is stored:
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

/// Answers a question with the help of tools.
#[derive(Parser)]
struct Args {
    /// What to ask. Without a question, an interrupted conversation is resumed.
    question: Option<String>,
    /// Dies when the model has asked for tools, before they are run.
    #[arg(long)]
    crash: bool,
    /// The conversation's name.
    #[arg(long, default_value = "tools")]
    conversation: String,
    /// Where history is kept: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:tools.db")]
    store: StoreUrl,
    /// The model to ask for [default: OPENAI_MODEL, else gpt-4o-mini]
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
        // A new question on open calls gives them up: the layer answers them as abandoned.
        (Some(question), _) => agent::question(&question),
        (None, false) => {
            eprintln!("Resuming: {} tool calls are open.", open.len());
            toolbox::run_all(&open).await
        }
        (None, true) => {
            eprintln!("Nothing to resume: ask a question.");
            return Ok(ExitCode::FAILURE);
        }
    };
    match agent.run(input, args.crash).await? {
        Ended::Answered(text) => {
            println!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Ended::Crashed => {
            eprintln!("Crashed, with tools still to run.");
            Ok(ExitCode::FAILURE)
        }
    }
}
