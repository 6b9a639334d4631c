//! `chat-history erase`

use std::io::Write;

use tower_chat_history_core::{Erase as EraseStore, Erasure, Prefix, Removed};

use super::write_json;
use crate::{
    args::Erase,
    outcome::{Failure, Outcome},
    progress::Progress,
    terminal::{count, size},
};

pub(crate) async fn run(
    store: &dyn EraseStore,
    args: &Erase,
    out: &mut (dyn Write + Send),
) -> Result<Outcome, Failure> {
    let under = args.prefix.clone().unwrap_or(Prefix::all());
    if !args.yes {
        let stored = store.count(&under).await?.total();
        let what = if under.is_all() { "everything".into() } else { under.to_string() };
        eprintln!("This would erase {what}: {}.", summary(&stored));
        eprintln!("Nothing was erased. Add --yes to erase it.");
        return Ok(Outcome::Unconfirmed);
    }
    let mut receipt = match erased(store, under).await {
        Ok(receipt) => receipt,
        Err(error) => {
            write_json(out, &error.receipt)?;
            return Err(Failure::Erase(error));
        }
    };
    if args.scrub {
        let progress = Progress::spinner();
        progress.say("removing erased data from files".into());
        match store.scrub().await {
            Ok(scrubbed) => receipt = receipt.scrubbed(scrubbed),
            Err(error) => {
                // The conversations are erased anyway.
                write_json(out, &receipt)?;
                return Err(error.into());
            }
        }
    }
    write_json(out, &receipt)?;
    if !receipt.is_complete() {
        eprintln!("Something is left, because others are writing. Run the same command again.");
    }
    if let Some(scrubbed) = receipt.scrubbed.as_ref().filter(|scrubbed| !scrubbed.left.is_empty()) {
        eprintln!("Not cleaned, and left to you: {}.", scrubbed.left.join("; "));
    }
    Ok(Outcome::done_if(receipt.is_complete()))
}

async fn erased(
    store: &dyn EraseStore,
    under: Prefix,
) -> Result<tower_chat_history_core::Receipt, tower_chat_history_core::EraseError> {
    let progress = Progress::spinner();
    let mut erasure = Erasure::begin(store, under).await?;
    while erasure.step().await? {
        progress.say(format!("erased {}", summary(&erasure.removed().total())));
    }
    Ok(erasure.into_receipt())
}

fn summary(stored: &Removed) -> String {
    let conversations = count(stored.conversations, "conversation", "conversations");
    format!("{conversations} with {} ({})", count(stored.exchanges, "exchange", "exchanges"), size(stored.bytes))
}
