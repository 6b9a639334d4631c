//! `chat-history erase`

use std::io::Write;

use tower_chat_history_core::{
    Erase as EraseStore, Erasure, Prefix, Receipt, Removed, Scrubbed, Stopped, erase_quotes,
};

use crate::{
    args::Erase,
    outcome::{Failure, Outcome, write_receipt},
    store::ManagedStore,
    terminal::{Interrupt, Progress, count, escaped, size},
};

/// The most conversations in which quotes are looked for at once.
const QUOTES_PAGE: usize = 1_000;

pub(crate) async fn run(
    store: &dyn ManagedStore,
    args: &Erase,
    database: String,
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

    let mut interrupt = Interrupt::listen();
    let receipt = match erase(store, under, &interrupt).await {
        Ok(receipt) => receipt.database(database),
        Err(error) => {
            write_receipt(out, &error.done.clone().database(database))?;
            return Err(Failure::Erase(error));
        }
    };

    let later = tokio::select! {
        biased;
        () = interrupt.requested() => Err(Failure::Interrupted),
        later = later_steps(store, args) => later,
    };
    let (scrubbed, failed) = match later {
        Ok(later) => later,
        Err(failure) => {
            // The conversations are erased anyway.
            write_receipt(out, &receipt)?;
            return Err(failure);
        }
    };

    let receipt = match scrubbed {
        Some(scrubbed) => receipt.scrubbed(scrubbed),
        None => receipt,
    };
    write_receipt(out, &receipt)?;
    if receipt.removed.total().is_nothing() {
        eprintln!("Nothing was stored under this prefix.");
    }
    if !receipt.is_complete() {
        eprintln!("Something is left, because others are writing. Run the same command again.");
    }
    if let Some(scrubbed) = receipt.scrubbed.as_ref().filter(|scrubbed| !scrubbed.left.is_empty()) {
        eprintln!("Not cleaned, and left to you: {}.", scrubbed.left.join("; "));
    }
    Ok(Outcome::done_if(receipt.is_complete() && failed == 0))
}

/// Makes the steps after the erasure that the command line asks for. Returns the result of the scrub, and the number of
/// conversations that may still have quotes.
async fn later_steps(store: &dyn ManagedStore, args: &Erase) -> Result<(Option<Scrubbed>, u64), Failure> {
    let failed = match &args.quotes_under {
        Some(under) => remove_quotes(store, under).await?,
        None => 0,
    };
    if !args.scrub {
        return Ok((None, failed));
    }
    let progress = Progress::spinner();
    progress.say("removing erased data from files".into());
    Ok((Some(store.scrub().await?), failed))
}

/// Removes what the conversations under a prefix quote of others. Returns the number of conversations where this
/// failed.
async fn remove_quotes(store: &dyn ManagedStore, under: &Prefix) -> Result<u64, Failure> {
    let progress = Progress::spinner();
    let mut after = None;
    let mut examined = 0;
    let mut changed = 0;
    let mut failed = 0;
    loop {
        let run = erase_quotes(store, under, after.as_ref(), QUOTES_PAGE).await.map_err(Failure::Quotes)?;
        if let Some(failure) = run.first_failure.filter(|_| failed == 0) {
            eprintln!("{}: {}", failure.id, escaped(&failure.error.to_string()));
        }
        examined += run.examined;
        changed += run.changed;
        failed += run.failed;
        progress.say(format!("looked for quotes in {}", count(examined, "conversation", "conversations")));
        after = run.next;
        if after.is_none() {
            break;
        }
    }
    drop(progress);

    let examined = count(examined, "conversation", "conversations");
    eprintln!("Removed quotes from {changed} of {examined}.");
    if failed > 0 {
        let unread = count(failed, "conversation could", "conversations could");
        eprintln!("{unread} not be read, and may still have quotes.");
    }
    Ok(failed)
}

/// Erases everything under the prefix, unless the user interrupts it. Then the receipt says what was erased before.
async fn erase(store: &dyn EraseStore, under: Prefix, interrupt: &Interrupt) -> Result<Receipt, Stopped<Receipt>> {
    let progress = Progress::spinner();
    let mut erasure = Erasure::begin(store, under).await?;
    while erasure.step().await? && !interrupt.is_requested() {
        progress.say(format!("erased {}", summary(&erasure.removed().total())));
    }
    Ok(erasure.into_receipt())
}

fn summary(stored: &Removed) -> String {
    let conversations = count(stored.conversations, "conversation", "conversations");
    format!("{conversations} with {} ({})", count(stored.exchanges, "exchange", "exchanges"), size(stored.bytes))
}
