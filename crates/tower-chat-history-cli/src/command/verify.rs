//! `chat-history verify`

use std::io::Write;

use tower_chat_history_core::{ConversationId, Cuts, Erase, Listed, Load, LoadLimit, Loaded, Profile, StoreError};

use crate::{
    args::Verify,
    outcome::{Failure, Outcome},
    terminal::{Progress, count},
};

/// The number of conversations or exchanges that are read per call of the store.
const PAGE: usize = 64;

/// The numbers of a check.
#[derive(Default)]
struct Counts {
    conversations: u64,
    exchanges: u64,
    damaged: u64,
    /// The exchanges whose content is encrypted. This program has no keys, so it checks only what is around it.
    encrypted: u64,
    /// The keys in the store that are no ids.
    foreign_keys: u64,
}

pub(crate) async fn run(store: &dyn Erase, args: &Verify, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let progress = Progress::spinner();
    let mut counts = Counts::default();
    let mut after = None;
    loop {
        let page = store.list(&args.prefix, after.as_ref(), PAGE).await?;
        counts.foreign_keys += page.foreign_keys;
        after = page.next.clone();
        for entry in page.into_entries() {
            match entry {
                Ok(listed) => {
                    exchanges(store, &listed, &mut counts, out).await?;
                    compactions(store, &listed, args, &mut counts, out).await?;
                }
                Err(damaged) => report(&damaged.id, &damaged.error.to_string(), &mut counts, out)?,
            }
            counts.conversations += 1;
            progress.say(summary(&counts));
        }
        if after.is_none() {
            break;
        }
    }
    drop(progress);
    out.flush()?;

    let damaged = match counts.damaged {
        0 => "Nothing is damaged.".into(),
        damaged => format!("{} damaged.", count(damaged, "part is", "parts are")),
    };
    eprintln!("Read {}. {damaged}", summary(&counts));
    if counts.encrypted > 0 {
        let encrypted = count(counts.encrypted, "exchange is encrypted", "exchanges are encrypted");
        eprintln!("{encrypted}, and the content was not checked.");
    }
    if counts.foreign_keys > 0 {
        eprintln!("{} not an id of a conversation.", count(counts.foreign_keys, "key is", "keys are"));
    }
    Ok(Outcome::done_if(counts.damaged == 0 && counts.foreign_keys == 0))
}

fn summary(counts: &Counts) -> String {
    let conversations = count(counts.conversations, "conversation", "conversations");
    format!("{conversations} with {}", count(counts.exchanges, "exchange", "exchanges"))
}

fn report(id: &ConversationId, damage: &str, counts: &mut Counts, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    counts.damaged += 1;
    Ok(writeln!(out, "{id}: {damage}")?)
}

/// Reads the whole log. If a page has a damaged exchange, reads the exchanges one by one.
async fn exchanges(
    store: &dyn Erase,
    listed: &Listed,
    counts: &mut Counts,
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    let mut next = listed.revision.first();
    let end = listed.revision.next();
    let mut limit = PAGE;
    while next < end {
        let page = match store.read(&listed.id, next, limit).await {
            Err(StoreError::Corrupt { .. }) if limit > 1 => {
                limit = 1;
                continue;
            }
            Err(error @ StoreError::Corrupt { .. }) => {
                report(&listed.id, &error.to_string(), counts, out)?;
                next = next.next();
                limit = PAGE;
                continue;
            }
            page => page?,
        };

        let is_same = page.revision.is_some_and(|now| now.incarnation() == listed.revision.incarnation());
        let first = page.revision.map_or(next, |now| now.first());
        if !is_same || first > next {
            // It was edited in the meantime, so its rest is not the listed one.
            return Ok(());
        }

        for recorded in &page.exchanges {
            if recorded.seq != next {
                break;
            }
            next = next.next();
            counts.exchanges += 1;
            counts.encrypted += u64::from(recorded.exchange.sealed.is_some());
        }
        if page.exchanges.first().is_none_or(|first| first.seq >= next) {
            report(&listed.id, &format!("exchange {next} is missing"), counts, out)?;
            next = page.exchanges.first().map_or(end, |first| first.seq);
        }
    }
    Ok(())
}

async fn compactions(
    store: &dyn Erase,
    listed: &Listed,
    args: &Verify,
    counts: &mut Counts,
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    let smallest = LoadLimit::new(1, 1).unwrap_or_default();
    for profile in &args.profiles {
        let loaded = store.load(&listed.id, Load::new().profile(profile.clone()).limit(smallest)).await;
        match loaded.and_then(|loaded| read_cuts(&listed.id, profile, &loaded)) {
            Err(error @ StoreError::CorruptCompaction { .. }) => report(&listed.id, &error.to_string(), counts, out)?,
            // The exchange was reported.
            Ok(()) | Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Checks that the cuts in a loaded compaction can be read, unless they are encrypted.
fn read_cuts(id: &ConversationId, profile: &Profile, loaded: &Loaded) -> Result<(), StoreError> {
    let Loaded::Window(window) = loaded else { return Ok(()) };
    let Some(compaction) = &window.compaction else { return Ok(()) };
    if window.exchanges.iter().any(|recorded| recorded.exchange.sealed.is_some()) {
        return Ok(());
    }
    Cuts::read(compaction).map(drop).map_err(|error| StoreError::CorruptCompaction {
        conversation: id.clone(),
        profile: profile.clone(),
        source: Box::new(error),
    })
}
