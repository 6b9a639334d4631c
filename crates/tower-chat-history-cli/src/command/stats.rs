//! `chat-history stats`

use std::io::Write;

use serde::Serialize;
use tower_chat_history_core::{ByStore, Erase, Timestamp};

use crate::{
    args::Stats,
    outcome::{Failure, Outcome, write_json},
    terminal::{self, Progress, count, size},
};

/// The number of conversations that are listed per call of the store.
const PAGE: usize = 500;

#[derive(Serialize)]
struct Totals {
    stores: ByStore,
    first_created_at: Option<Timestamp>,
    last_updated_at: Option<Timestamp>,
    /// The conversations whose times cannot be read.
    damaged: u64,
    /// The keys in the store that are no ids.
    foreign_keys: u64,
}

pub(crate) async fn run(store: &dyn Erase, args: &Stats, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let progress = Progress::spinner();
    progress.say("counting".into());
    let stores = store.count(&args.prefix).await?;
    let mut totals = Totals { stores, first_created_at: None, last_updated_at: None, damaged: 0, foreign_keys: 0 };

    let mut after = None;
    let mut walked = 0;
    loop {
        let page = store.list(&args.prefix, after.as_ref(), PAGE).await?;
        walked += page.len() as u64;
        totals.damaged += page.damaged.len() as u64;
        totals.foreign_keys += page.foreign_keys;
        for listed in page.conversations {
            if totals.first_created_at.is_none_or(|first| listed.created_at < first) {
                totals.first_created_at = Some(listed.created_at);
            }
            totals.last_updated_at = totals.last_updated_at.max(Some(listed.updated_at));
        }
        progress.say(count(walked, "conversation", "conversations"));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    drop(progress);

    if args.json {
        write_json(out, &totals)?;
    } else {
        write(&totals, out)?;
    }
    Ok(Outcome::Done)
}

fn write(totals: &Totals, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    for (store, stored) in totals.stores.iter() {
        writeln!(out, "{store}")?;
        let rows = [
            ("conversations", stored.conversations),
            ("exchanges", stored.exchanges),
            ("compactions", stored.compactions),
            ("summaries", stored.summaries),
            ("with labels", stored.labels),
        ];
        for (name, number) in rows {
            writeln!(out, "  {name:<16}{number:>12}")?;
        }
        writeln!(out, "  {:<16}{:>12}", "messages", size(stored.bytes))?;
    }
    if let (Some(first), Some(last)) = (totals.first_created_at, totals.last_updated_at) {
        writeln!(out, "first created {}, last updated {}", terminal::time(first), terminal::time(last))?;
    }
    if totals.damaged > 0 || totals.foreign_keys > 0 {
        let damaged = count(totals.damaged, "damaged conversation", "damaged conversations");
        writeln!(out, "{damaged}, {} not an id", count(totals.foreign_keys, "key is", "keys are"))?;
    }
    Ok(())
}
