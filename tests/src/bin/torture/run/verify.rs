//! Reads everything from the store and checks it.

use std::collections::HashMap;

use tower_chat_history::{
    BoxError, HistoryStore as _, HistoryStoreExt as _,
    store::{Compaction, Cuts, List as _, Listed, Load, LoadLimit, Loaded, Profile, Recorded, Seq},
};

use super::{ledger::Ledger, people::list};
use crate::{
    PROFILES,
    exchange::{Conversation, Name, all_conversations, conversation_id, is_signed},
    intact, signed,
    store::Store,
    worker::positions,
};

/// The content of the store.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) stored: u64,
    /// The number of stored exchanges in the signing dialect.
    pub(crate) signed: u64,
    pub(crate) bytes: u64,
    pub(crate) compactions: u64,
    /// The number of exchanges that follow one of another worker.
    pub(crate) turns_taken: u64,
    /// The listed conversations that were not read yet.
    listed: HashMap<String, Listed>,
    /// The number of conversations of people that the workers left.
    pub(crate) people: u64,
    /// The number of people of whom a removal was interrupted.
    pub(crate) interrupted: u64,
    pub(crate) violations: Vec<String>,
}

/// Reads every conversation and checks it.
pub(crate) async fn all(store: &Store, conversations: Conversation, ledger: &Ledger) -> Found {
    let mut found = Found::default();
    match listed(store).await {
        Ok(listed) => found.listed = listed,
        Err(error) => found.violations.push(format!("the conversations cannot be listed: {error}")),
    }
    for conversation in 0..conversations {
        if let Err(error) = one(store, conversation, ledger, &mut found).await {
            found.violations.push(format!("c{conversation}: cannot be read: {error}"));
        }
    }
    found.violations.extend(found.listed.keys().map(|id| format!("{id} is listed, and has no exchanges")));
    found
}

/// Lists all conversations.
async fn listed(store: &Store) -> Result<HashMap<String, Listed>, BoxError> {
    let listed = list(store, &all_conversations()?).await?;
    Ok(listed.into_iter().map(|entry| (entry.id.as_str().to_owned(), entry)).collect())
}

/// Returns the violations in the entry of a conversation in a listing.
fn check_entry(conversation: Conversation, log: &[Recorded], entry: Option<&Listed>) -> Option<String> {
    let bytes: u64 = log.iter().map(|recorded| recorded.exchange.bytes() as u64).sum();
    let (len, expected) = (log.len() as u64, (!log.is_empty()).then_some((log.len() as u64, bytes)));
    let found = entry.map(|entry| (entry.revision.version(), entry.bytes));
    (found != expected).then(|| format!("c{conversation}: {len} exchanges of {bytes} bytes are listed with {found:?}"))
}

async fn one(
    store: &Store,
    conversation: Conversation,
    ledger: &Ledger,
    found: &mut Found,
) -> Result<(), tower_chat_history::BoxError> {
    let id = conversation_id(conversation)?;
    let log = store.conversation(&id).exchanges().await?;
    found.stored += log.len() as u64;
    found.signed += if is_signed(conversation) { log.len() as u64 } else { 0 };
    found.bytes += log.iter().map(|recorded| recorded.exchange.bytes() as u64).sum::<u64>();
    found.turns_taken += changes_of_writer(&log);
    let entry = found.listed.remove(id.as_str());
    found.violations.extend(check_entry(conversation, &log, entry.as_ref()));
    if store.describe(&id).await? != entry {
        found.violations.push(format!("c{conversation}: a description differs from the listing"));
    }
    found.violations.extend(check_log(conversation, &log, ledger));
    for (number, profile) in PROFILES.into_iter().enumerate() {
        let load = Load::new().profile(Profile::new(profile)?).limit(LoadLimit::new(1, 1)?);
        let (len, compaction) = match store.load(&id, load).await? {
            Loaded::Window(window) => (window.revision.version(), window.compaction),
            Loaded::Absent(_) => (0, None),
            other => return Err(format!("unexpected answer: {other:?}").into()),
        };
        if len != log.len() as u64 {
            found
                .violations
                .push(format!("c{conversation}: {} exchanges, but {len} according to the revision", log.len()));
        }
        found.compactions += u64::from(compaction.is_some());
        found.violations.extend(check_compaction(conversation, number, compaction.as_ref(), &log, ledger));
    }
    Ok(())
}

fn changes_of_writer(log: &[Recorded]) -> u64 {
    let writer = |recorded: &Recorded| recorded.exchange.id.as_str().parse().map(|name: Name| name.worker);
    log.windows(2).filter(|pair| writer(&pair[0]) != writer(&pair[1])).count() as u64
}

/// Returns the violations in the log of a conversation.
fn check_log(conversation: Conversation, log: &[Recorded], ledger: &Ledger) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut positions_by_name = HashMap::new();
    for (position, recorded) in (0..).zip(log) {
        let at = format!("c{conversation} at {position}");
        if recorded.seq != Seq::new(position) {
            wrong.push(format!("{at}: a gap before {}", recorded.seq));
        }
        match intact::task(&recorded.exchange) {
            Ok(task) => {
                if task.conversation != conversation {
                    wrong.push(format!("{at}: {} of c{}", task.name, task.conversation));
                }
                if ledger.get(task.name).is_none_or(|tried| tried.task != task) {
                    wrong.push(format!("{at}: {} was never tried", task.name));
                }
                if let Some(before) = positions_by_name.insert(task.name, position) {
                    wrong.push(format!("{at}: {} is also at {before}", task.name));
                }
                let continues = recorded.exchange.continues.map(Seq::get);
                if task.kind.continues() && continues != positions_by_name.get(&task.name.before()).copied() {
                    wrong.push(format!("{at}: {} continues {continues:?}", task.name));
                }
                if is_signed(task.conversation) && !ledger.was_sent(task.name, signed::sum(&recorded.exchange)) {
                    wrong.push(format!("{at}: {} was never sent with these elements and this provenance", task.name));
                }
            }
            Err(what) => wrong.push(format!("{at}: {what}")),
        }
    }
    for (name, seq) in ledger.acknowledged_in(conversation) {
        match positions_by_name.get(&name) {
            Some(position) if *position == seq => {}
            Some(position) => {
                wrong.push(format!("c{conversation}: {name} was acknowledged at {seq} and is at {position}"));
            }
            None => wrong.push(format!("c{conversation}: {name} was acknowledged at {seq} and is lost")),
        }
    }
    wrong
}

/// Returns the violations in a stored compaction.
fn check_compaction(
    conversation: Conversation,
    profile: usize,
    compaction: Option<&Compaction>,
    log: &[Recorded],
    ledger: &Ledger,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let cut = match compaction.map(Cuts::read).transpose() {
        Ok(cuts) => cuts.map(|cuts| cuts.cut).unwrap_or_default(),
        Err(error) => return vec![format!("c{conversation}: the compaction {profile} is damaged: {error}")],
    };
    let opens = |seq: Seq| {
        let found = usize::try_from(seq.get()).ok().and_then(|position| log.get(position));
        found.is_some_and(|recorded| recorded.exchange.opens_turn())
    };
    if compaction.is_some()
        && let Err(error) = cut.check(None, log.len() as u64, opens)
    {
        wrong.push(format!("c{conversation}: the compaction {profile} breaks a rule: {error}"));
    }
    let seen = ledger.cuts.get(&(conversation, profile)).copied().unwrap_or_default();
    let at = positions(&cut);
    if at.goes_back_from(seen) {
        wrong.push(format!("c{conversation}: the compaction {profile} was seen at {seen} and is at {at}"));
    }
    if let Some(summary) = &cut.summary
        && !summary.text.starts_with(&format!("A summary of c{conversation}:"))
    {
        wrong.push(format!("c{conversation}: the summary {profile} belongs to another conversation"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tower_chat_history::{
        Exchange, ExchangeId, Message,
        dialect::Digest,
        store::{CompactionVersion, Cut, Incarnation, Revision, Summary, Timestamp},
    };

    use super::*;
    use crate::{
        exchange::{Kind, Task},
        text::Part,
    };

    fn task(number: u32, kind: Kind) -> Task {
        Task { name: Name { worker: 1, number }, conversation: 2, kind }
    }

    fn recorded(seq: u64, task: Task) -> Recorded {
        let (asked, answered) = (task.text(Part::Asked), task.text(Part::Answered));
        let call = json!({"id": task.name.call_id(), "type": "function",
            "function": {"name": "look", "arguments": json!({"text": answered}).to_string()}});
        let calls = Message::from_json(json!({"role": "assistant", "tool_calls": [call]}).to_string()).unwrap();
        let messages = match task.kind {
            Kind::Plain => [Message::user(asked), Message::assistant(answered)],
            Kind::Call => [Message::user(asked), calls],
            Kind::Step => [Message::tool(task.name.before().call_id(), asked), calls],
            Kind::Result => [Message::tool(task.name.before().call_id(), asked), Message::assistant(answered)],
        };
        let exchange = Exchange::new(ExchangeId::new(task.name.to_string()).unwrap(), messages);
        let exchange = if task.kind == Kind::Result { exchange.continuing(Seq::new(1)) } else { exchange };
        Recorded::new(Seq::new(seq), exchange)
    }

    /// Returns the log and ledger of a plain exchange, a call, another plain exchange, and the result of the
    /// call.
    fn sound() -> (Vec<Recorded>, Ledger) {
        let tasks = [task(0, Kind::Plain), task(1, Kind::Call), task(3, Kind::Plain), task(2, Kind::Result)];
        let mut ledger = Ledger::default();
        for (seq, task) in tasks.iter().enumerate() {
            ledger.note(1, &format!("try {task}"));
            ledger.note(1, &format!("ack {task} {seq} stored"));
        }
        ledger.note(1, &format!("try {}", self::task(9, Kind::Plain)));
        ((0..).zip(tasks).map(|(seq, task)| recorded(seq, task)).collect(), ledger)
    }

    #[test]
    fn an_intact_log_has_no_violations() {
        let (mut log, ledger) = sound();
        assert_eq!(check_log(2, &log, &ledger), [""; 0]);
        // An exchange that was not acknowledged may be stored.
        log.push(recorded(4, task(9, Kind::Plain)));
        assert_eq!(check_log(2, &log, &ledger), [""; 0]);
    }

    #[test]
    fn every_kind_of_damage_is_found() {
        let found = |damage: &dyn Fn(&mut Vec<Recorded>), what: &str| {
            let (mut log, ledger) = sound();
            damage(&mut log);
            let wrong = check_log(2, &log, &ledger);
            assert!(wrong.iter().any(|wrong| wrong.contains(what)), "{what}: {wrong:?}");
        };
        found(&|log| drop(log.pop()), "w1-2 was acknowledged at 3 and is lost");
        found(&|log| log.push(recorded(4, task(0, Kind::Plain))), "w1-0 is also at 0");
        found(&|log| log.push(recorded(4, task(7, Kind::Plain))), "w1-7 was never tried");
        found(&|log| log.push(recorded(5, task(9, Kind::Plain))), "a gap");
        found(&|log| log[3] = recorded(3, task(9, Kind::Plain)), "is lost");
        found(&|log| log.swap(0, 2), "acknowledged at 0 and is at 2");
        let of_another = |log: &mut Vec<Recorded>| {
            log.push(recorded(4, Task { conversation: 3, ..task(9, Kind::Plain) }));
        };
        found(&of_another, "of c3");
        let continues_another = |log: &mut Vec<Recorded>| {
            log[3] = Recorded::new(Seq::new(3), (*log[3].exchange).clone().continuing(Seq::FIRST));
        };
        found(&continues_another, "w1-2 continues Some(0)");
        let incomplete = |log: &mut Vec<Recorded>| {
            let mut exchange = (*log[0].exchange).clone();
            exchange.messages.truncate(1);
            log[0] = Recorded::new(Seq::FIRST, exchange);
        };
        found(&incomplete, "is incomplete");
    }

    #[test]
    fn an_exchange_in_the_signing_dialect_must_be_one_that_was_sent() {
        let task = Task { conversation: 1, ..task(0, Kind::Plain) };
        let log = [Recorded::new(Seq::FIRST, signed::exchange(task))];
        let mut ledger = Ledger::default();
        ledger.note(1, &format!("try {task}"));
        ledger.note(1, &format!("sent {task} {:x}", signed::sum(&log[0].exchange)));
        ledger.note(1, &format!("ack {task} 0 stored"));
        assert_eq!(check_log(1, &log, &ledger), [""; 0]);
        let mut moved = (*log[0].exchange).clone();
        moved.provenance.as_mut().unwrap().digests.prompt = Digest::of(b"the prompt of another attempt");
        let moved = [Recorded::new(Seq::FIRST, moved)];
        assert!(check_log(1, &moved, &ledger)[0].contains("was never sent with these elements"));
    }

    #[test]
    fn a_wrong_entry_of_a_listing_is_found() {
        let (log, _) = sound();
        let bytes = log.iter().map(|recorded| recorded.exchange.bytes() as u64).sum();
        let entry = |version, bytes| {
            let (id, now) = (conversation_id(2).unwrap(), Timestamp::now());
            Listed::new(id, Revision::new(Incarnation::random(), version), now, now, bytes)
        };
        let len = log.len() as u64;
        assert_eq!(check_entry(2, &log, Some(&entry(len, bytes))), None);
        assert_eq!(check_entry(2, &[], None), None);
        for (log, entry) in [
            (&log[..], None),
            (&log[..], Some(entry(len + 1, bytes))),
            (&log[..], Some(entry(len, bytes + 1))),
            (&[], Some(entry(1, 1))),
        ] {
            assert!(check_entry(2, log, entry.as_ref()).is_some(), "{entry:?}");
        }
    }

    #[test]
    fn invalid_compactions_are_found() {
        let (log, mut ledger) = sound();
        ledger.note(1, "cut 2 0 1,1,0,1");
        let found = |cut: Cut| {
            let compact = Cuts::new(cut).compact(Profile::default(), CompactionVersion::NONE).unwrap();
            let compaction = compact.stored_as(CompactionVersion::new(1));
            check_compaction(2, 0, Some(&compaction), &log, &ledger)
        };
        let mut cut = Cut::window_from(Seq::new(2));
        cut.set_summary(Summary::new("A summary of c2: some"), Seq::new(1));
        assert_eq!(found(cut.clone()), [""; 0]);
        cut.set_summary(Summary::new("A summary of c3: some"), Seq::new(1));
        assert!(found(cut)[0].contains("to another conversation"));
        assert!(found(Cut::window_from(Seq::new(3)))[0].contains("breaks a rule"), "within a turn");
        assert!(found(Cut::window_from(Seq::new(4)))[0].contains("breaks a rule"), "after the end of the log");
        assert!(found(Cut::window_from(Seq::FIRST))[0].contains("was seen at 1,1,0,1"), "it went back");
        assert!(check_compaction(2, 0, None, &log, &ledger)[0].contains("was seen"), "it is missing");
        assert_eq!(check_compaction(2, 1, None, &log, &ledger), [""; 0]);
    }
}
