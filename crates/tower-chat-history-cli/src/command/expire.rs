//! `chat-history expire`

use std::io::Write;

use serde::Serialize;
use tower_chat_history_core::{ByStore, Erase, Expiry, ExpiryRule, Prefix, Timestamp};

use crate::{
    args::Expire,
    outcome::{Failure, Outcome, write_receipt},
    terminal::{Progress, count, escaped},
};

/// The number of conversations per run.
const RUN: usize = 500;

/// The receipt of all runs.
#[derive(Serialize)]
struct Receipt {
    under: Prefix,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    older_than_seconds: Option<u64>,
    started_at: Timestamp,
    ended_at: Timestamp,
    examined: u64,
    damaged: u64,
    due: u64,
    failed: u64,
    removed: ByStore,
    dry_run: bool,
}

pub(crate) async fn run(store: &dyn Erase, args: &Expire, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let under = args.prefix.clone().unwrap_or(Prefix::all());
    let rule = match (args.idle, args.older_than) {
        (Some(idle), _) => ExpiryRule::Idle(idle),
        (None, Some(age)) => ExpiryRule::Age(age),
        // The command line requires one of them.
        (None, None) => ExpiryRule::Never,
    };

    let now = Timestamp::now();
    let mut receipt = Receipt {
        under: under.clone(),
        idle_seconds: args.idle.map(|time| time.as_secs()),
        older_than_seconds: args.older_than.map(|time| time.as_secs()),
        started_at: now,
        ended_at: now,
        examined: 0,
        damaged: 0,
        due: 0,
        failed: 0,
        removed: ByStore::default(),
        dry_run: args.dry_run,
    };

    let expiry = Expiry::new().under(under, rule);
    let progress = Progress::spinner();
    let mut from = None;
    loop {
        let run = match args.dry_run {
            true => expiry.preview(store, now, from.as_ref(), RUN).await,
            false => expiry.run_once(store, now, from.as_ref(), RUN).await,
        };
        let (run, error) = match run {
            Ok(run) => (run, None),
            Err(error) => ((*error.done).clone(), Some(error)),
        };

        receipt.examined += run.examined;
        receipt.damaged += run.damaged;
        receipt.due += run.due;
        if let Some(failure) = run.first_failure.filter(|_| receipt.failed == 0) {
            eprintln!("{}: {}", failure.id, escaped(&failure.error.to_string()));
        }
        receipt.failed += run.failed;
        receipt.removed += run.removed;
        receipt.ended_at = run.ended_at;
        from = run.next;

        progress.say(format!("{} looked at", count(receipt.examined, "conversation", "conversations")));
        if error.is_some() || from.is_none() {
            drop(progress);
            write_receipt(out, &receipt)?;
            return match error {
                Some(error) => Err(Failure::Expire(error)),
                None => Ok(Outcome::done_if(receipt.damaged == 0 && receipt.failed == 0)),
            };
        }
    }
}
