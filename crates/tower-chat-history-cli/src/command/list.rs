//! `chat-history list`

use std::io::Write;

use serde::Serialize;
use tower_chat_history_core::{ConversationId, Erase, Labels, ListExt as _, Listed, Seq, Timestamp};

use super::show::has_sealed_labels;
use crate::{
    args::List,
    outcome::{Failure, Outcome},
    terminal,
};

/// The number of conversations among which the newest ones are searched.
const WALK: usize = 1_000_000;

/// The number of conversations that are listed per call of the store.
const PAGE: usize = 500;

/// A conversation as a JSON object.
#[derive(Serialize)]
struct Entry<'a> {
    id: &'a ConversationId,
    exchanges: u64,
    bytes: u64,
    first: Seq,
    created_at: Timestamp,
    updated_at: Timestamp,
    labels: &'a Labels,
}

pub(crate) async fn run(store: &dyn Erase, args: &List, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let mut shown = 0;
    let mut damaged = 0;

    if args.newest {
        let newest = store.newest(&args.prefix, args.limit, WALK).await?;
        damaged = newest.damaged;
        for listed in &newest.conversations {
            write(listed, args.json, shown == 0, out)?;
            shown += 1;
        }
        out.flush()?;
        if !newest.is_complete {
            eprintln!("There are more than {WALK} conversations: newer ones may be missing. Use a longer prefix.");
        }
    } else {
        let mut after = args.after.clone();
        while shown < args.limit {
            let page = store.list(&args.prefix, after.as_ref(), PAGE.min(args.limit - shown)).await?;
            damaged += page.damaged.len() as u64;
            for broken in &page.damaged {
                eprintln!("{}: {}", broken.id, terminal::escaped(&broken.error.to_string()));
            }
            for listed in &page.conversations {
                write(listed, args.json, shown == 0, out)?;
                shown += 1;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // On a terminal, the notes come after the conversations.
        out.flush()?;
        if let Some(after) = after {
            eprintln!("There are more. Continue with --after {after}, or set a larger --limit.");
        }
    }

    if damaged > 0 {
        eprintln!("{} damaged and left out.", terminal::count(damaged, "conversation is", "conversations are"));
    } else if shown == 0 && args.limit > 0 && !args.json {
        eprintln!("There is no conversation.");
    }
    Ok(Outcome::done_if(damaged == 0))
}

fn write(listed: &Listed, is_json: bool, is_first: bool, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    if is_json {
        let entry = Entry {
            id: &listed.id,
            exchanges: listed.revision.len(),
            bytes: listed.bytes,
            first: listed.revision.first(),
            created_at: listed.created_at,
            updated_at: listed.updated_at,
            labels: &listed.labels,
        };
        return Ok(writeln!(out, "{}", terminal::escaped_json(&serde_json::to_string(&entry)?))?);
    }
    if is_first {
        writeln!(out, "{:<20}  {:>9}  {:>9}  CONVERSATION", "UPDATED", "EXCHANGES", "SIZE")?;
    }
    let updated = terminal::time(listed.updated_at);
    let len = listed.revision.len();
    write!(out, "{updated:<20}  {len:>9}  {:>9}  {}", terminal::size(listed.bytes), listed.id)?;
    if has_sealed_labels(listed) {
        return Ok(writeln!(out, "  (encrypted labels)")?);
    }
    for (name, value) in listed.labels.iter() {
        let value = terminal::in_one_line(value);
        write!(out, "  {}={}", terminal::in_one_line(name), terminal::shortened(&value, 60))?;
    }
    Ok(writeln!(out)?)
}
