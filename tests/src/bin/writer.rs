//! A process that chats: `tests/processes.rs` starts several of it on one file, and kills them.
//!
//! It opens a store of its own and sends its turns through the layer, to all of its conversations at once. When a turn is
//! acknowledged, it says so in one line on its standard output: `ack <exchange id> <position>`.

use std::{
    io::{self, BufRead as _, Write as _},
    path::PathBuf,
};

use clap::Parser;
use futures_util::future;
use tests::{Asked, MockChat, asked};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, ExchangeId, HistoryOptions, LoadLimit, Message, Outcome,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_sqlite::SqliteStore;
use tower_chat_history_test::{MockLlm, Reply};

#[derive(Debug, Parser)]
struct Args {
    /// The database.
    #[arg(long)]
    path: PathBuf,
    /// What its exchange ids begin with.
    #[arg(long)]
    name: String,
    /// How many turns it sends to each conversation.
    #[arg(long)]
    turns: usize,
    /// The conversations.
    #[arg(long = "conversation", required = true)]
    conversations: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    // All processes begin when they are told to: at the same moment.
    io::stdin().lock().read_line(&mut String::new())?;
    let store = SqliteStore::open(&args.path).await?;
    // The window is short, so that turns also store compactions, and race to do so.
    let options = HistoryOptions::new().load_limit(LoadLimit::new(40, 1 << 20)?);
    let layer = ChatHistoryLayer::with_options(store.clone(), OpenAi::new(), options);
    let llm = MockLlm::rules(|messages| Reply::text(messages.last().map(Message::text).unwrap_or_default()));
    let chats = args.conversations.iter().map(|name| talk(layer.layer(llm.unary()), &args, name));
    future::try_join_all(chats).await?;
    store.close().await?;
    Ok(())
}

async fn talk(chat: ChatHistory<MockChat, OpenAi>, args: &Args, conversation: &str) -> Result<(), BoxError> {
    let id = ConversationId::new(["processes", conversation])?;
    for turn in 0..args.turns {
        let exchange = format!("{}/{conversation}/{turn}", args.name);
        let call: Asked = asked(&id, &exchange).exchange(ExchangeId::new(&exchange)?);
        let (call, report) = call.with_report();
        chat.clone().oneshot(call).await?;
        let report = report.await.ok_or("a turn without a report")?;
        let Outcome::Stored { seq, .. } = report.outcome else {
            return Err(format!("{exchange} came out as {:?}", report.outcome).into());
        };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "ack {exchange} {seq}")?;
        stdout.flush()?;
    }
    Ok(())
}
