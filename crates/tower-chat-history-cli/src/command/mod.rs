//! The commands.

mod erase;
mod exchange;
mod expire;
mod explain;
mod export;
mod import;
mod list;
mod show;
mod stats;
mod verify;

use std::{io::Write, sync::Arc};

use tower_chat_history_core::{ConversationId, Erase, Listed, Prefix};

use crate::{
    args::Command,
    outcome::{Failure, Outcome},
    store::ManagedStore,
    terminal,
};

/// The least number of characters of encrypted labels. The version, the key id, the nonce and the tag of
/// an encrypted text are that long.
const MIN_SEALED_LABELS: usize = 66;

/// Executes a command. Its result is written to `out`, and everything else to standard error. Receipts name the
/// database.
pub(crate) async fn run(
    store: &Arc<dyn ManagedStore>,
    command: Command,
    database: String,
    out: &mut (dyn Write + Send),
) -> Result<Outcome, Failure> {
    match command {
        Command::List(args) => list::run(&**store, &args, out).await,
        Command::Show(args) => show::run(&**store, &args, out).await,
        Command::Explain(args) => explain::run(Arc::<dyn ManagedStore>::clone(store), &args, out).await,
        Command::Export(args) => export::run(Arc::<dyn ManagedStore>::clone(store), args, out).await,
        Command::Import(args) => import::run(Arc::<dyn ManagedStore>::clone(store), args, out).await,
        Command::Erase(args) => erase::run(&**store, &args, database, out).await,
        Command::Expire(args) => expire::run(&**store, &args, out).await,
        Command::Verify(args) => verify::run(&**store, &args, out).await,
        Command::Stats(args) => stats::run(&**store, &args, out).await,
    }
}

/// Returns the facts about a conversation.
async fn describe(store: &dyn Erase, id: &ConversationId) -> Result<Listed, Failure> {
    if let Some(listed) = store.describe(id).await? {
        return Ok(listed);
    }
    let has_others = !store.list(&Prefix::from(id), None, 1).await?.conversations.is_empty();
    let id = id.to_string();
    Err(if has_others { Failure::OnlyUnder(id) } else { Failure::NoConversation(id) })
}

/// Returns `true` if the labels are encrypted. A label of the user's own that has the same name is usually shorter, or
/// has other characters.
fn has_sealed_labels(listed: &Listed) -> bool {
    let is_of_sealed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let sealed = listed.labels.as_sealed();
    sealed.is_some_and(|text| text.len() >= MIN_SEALED_LABELS && text.bytes().all(is_of_sealed))
}

/// Writes a receipt as JSON. If the output cannot be written, writes it to standard error, because the store does not
/// have these numbers any more.
fn write_receipt(out: &mut (dyn Write + Send), receipt: &impl serde::Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(receipt)?;
    let json = terminal::escaped_json(&json);
    writeln!(out, "{json}").and_then(|()| out.flush()).map_err(|error| {
        eprintln!("{json}");
        Failure::Receipt(error)
    })
}

/// Writes a value as JSON with line breaks.
fn write_json(out: &mut (dyn Write + Send), value: &impl serde::Serialize) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", terminal::escaped_json(&serde_json::to_string_pretty(value)?))?)
}
