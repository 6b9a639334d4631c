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
//!
//! With `--via messages`, the agent calls Anthropic's Messages API with thinking, over HTTP and without an SDK. The
//! provider signs each thinking block, and refuses the next request of a tool round if the block is missing, changed,
//! or after another prompt. The layer sends it again unchanged, also after a crash:
//!
//! ```text
//! cargo run -p examples --bin tools -- --via messages --conversation signed --crash "weather in Oslo and Lima?"
//! cargo run -p examples --bin tools -- --via messages --conversation signed
//! ```
//!
//! Without `OPENAI_API_KEY` (or `ANTHROPIC_API_KEY`), a mock model in this process answers. It refuses what the
//! provider refuses.

mod model;
mod toolbox;

use std::{process::ExitCode, sync::Arc};

use clap::Parser;
use examples::{HttpApi, HttpProvider, Provider, StoreUrl};
use tower_chat_history::{BoxError, ConversationId, HistoryStore, HistoryStoreExt as _};

use self::{
    model::{Input, Model, Reply},
    toolbox::Call,
};

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
    /// Way to call the model
    #[arg(long, value_enum, default_value_t = Via::Typed)]
    via: Via,
    /// Name of the model [default: $OPENAI_MODEL, or gpt-4o-mini; for Messages $ANTHROPIC_MODEL, or claude-haiku-5-5]
    #[arg(long)]
    model: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Via {
    /// Chat completions, with async-openai's types
    Typed,
    /// Anthropic's Messages API with thinking, over HTTP
    Messages,
}

#[tokio::main]
async fn main() -> Result<ExitCode, BoxError> {
    let args = Args::parse();
    let store: Arc<dyn HistoryStore> = args.store.open().await?;

    let model = match args.via {
        Via::Typed => {
            let provider = Provider::from_env(args.model, toolbox::mock_replies()).await?;
            eprintln!("{}", provider.about);
            Model::typed(Arc::clone(&store), provider)
        }
        Via::Messages => {
            let provider = HttpProvider::from_env(HttpApi::Messages, args.model, toolbox::mock_replies()).await?;
            eprintln!("{}", provider.about);
            Model::messages(Arc::clone(&store), provider)?
        }
    };

    let id = ConversationId::new(["tools", &args.conversation])?;
    let mut agent = Agent::new(store, model, id);

    let open = agent.open_calls().await?;
    let input = match (args.question, open.is_empty()) {
        // If tool calls are open, a new question abandons them: the layer sends a constant result for each.
        (Some(question), _) => Input::Question(question),
        (None, false) => {
            eprintln!("Resuming. Tool calls without a result: {}.", open.len());
            Input::Results(toolbox::run_all(&open).await)
        }
        (None, true) => {
            eprintln!("There is nothing to resume. Ask a question.");
            return Ok(ExitCode::FAILURE);
        }
    };

    match agent.run(input, args.crash).await? {
        End::Answer(text) => {
            println!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        End::Crash => {
            eprintln!("Exiting as if crashed, before running the tools.");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The maximum number of model calls per question.
const MAX_ROUNDS: usize = 8;

/// The agent in one conversation.
struct Agent {
    model: Model,
    store: Arc<dyn HistoryStore>,
    id: ConversationId,
}

/// The end of a run.
enum End {
    Answer(String),
    Crash,
}

impl Agent {
    fn new(store: Arc<dyn HistoryStore>, model: Model, id: ConversationId) -> Self {
        Self { model, store, id }
    }

    /// Returns the tool calls to which an earlier process has stored no result.
    async fn open_calls(&self) -> Result<Vec<Call>, BoxError> {
        let calls = self.store.conversation(&self.id).open_calls().await?;
        let mut open = Vec::with_capacity(calls.len());
        for call in calls {
            open.push(Call { id: call.id().into(), name: call.name().into(), arguments: call.arguments().into() });
        }
        Ok(open)
    }

    /// Calls the model, runs the tools that it requests, and sends the results, until it answers.
    async fn run(&mut self, mut input: Input, crash: bool) -> Result<End, BoxError> {
        for _ in 0..MAX_ROUNDS {
            let Reply { thinking, text, calls } = self.model.ask(&self.id, input).await?;
            for thinking in thinking {
                eprintln!("[thinking: {thinking}]");
            }

            if calls.is_empty() {
                return Ok(End::Answer(text));
            }
            if crash {
                return Ok(End::Crash);
            }

            input = Input::Results(toolbox::run_all(&calls).await);
        }
        Err(format!("the model still requests tools after {MAX_ROUNDS} rounds").into())
    }
}
