//! A terminal chat that remembers: `cargo run -p examples --bin chat`.
//!
//! The history layer stands around the real async-openai client. Without `OPENAI_API_KEY` the client talks to a mock model
//! in the same process, whose answers depend on nothing but the messages it receives: what it remembers, the layer sent.
//!
//! With `--summarize`, what leaves the model's context window is summarized, and `--context 400` makes that window so small
//! that it is soon to be seen: short notes on stderr say what was summarized or left out.
//!
//! Lines can be piped in, one a turn; then only the replies are printed, and the notes.

mod memory;
mod notes;
mod session;

use std::{error::Error, io::IsTerminal as _, process::ExitCode, time::Duration};

use clap::Parser;
use examples::{Provider, StoreUrl};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tower_chat_history::ConversationId;
use tower_chat_history_test::Replies;

use self::{
    memory::Memory,
    session::{Answer, Door, Session},
};

/// Chats with a model that remembers the conversation, also after a restart.
#[derive(Parser)]
struct Args {
    /// The conversation's name: another name is another conversation.
    #[arg(long, default_value = "main")]
    conversation: String,
    /// Where history is kept: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:chat.db")]
    store: StoreUrl,
    /// How history is put around the client.
    #[arg(long, value_enum, default_value_t = Door::Typed)]
    door: Door,
    /// The model to ask for [default: OPENAI_MODEL, else gpt-4o-mini]
    #[arg(long)]
    model: Option<String>,
    /// The context window in tokens, prompt and reply together [default: the model's]
    #[arg(long, value_name = "TOKENS")]
    context: Option<u32>,
    /// Has what leaves the window summarized: by the model, or by extracts where that is the mock.
    #[arg(long)]
    summarize: bool,
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
        eprintln!("/history shows the conversation, /delete forgets it, /quit leaves.");
    }

    let memory = Memory { context: args.context, summarizer: args.summarize.then(|| provider.summarizer()) };
    let mut session = Session::new(args.door, store, &provider, id, memory);
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
            Ok(Answer::Whole) => {}
            Ok(Answer::Broken(why)) => {
                eprintln!("chat: {why}");
                code = ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("chat: {}", with_sources(&*error));
                code = ExitCode::FAILURE;
            }
        }
    }
    // Saves whose caller has left, and summaries, are finished before the runtime goes.
    session.engine().drain(Duration::from_secs(60)).await?;
    session.print_notes();
    provider.shutdown().await;
    Ok(code)
}

/// Returns the text of an error with its causes. A store's error contains its causes already.
fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let shown = cause.to_string();
        if !text.ends_with(&shown) {
            text.push_str(": ");
            text.push_str(&shown);
        }
        source = cause.source();
    }
    text
}
