//! Checks that what a worker reads agrees with what it read before.

use std::{
    collections::HashMap,
    io,
    sync::{Mutex, PoisonError},
};

use tower_chat_history::{
    HistoryStore,
    store::{Cut, Cuts, Incarnation, Load, LoadLimit, Loaded, Profile},
};

use super::Output;
use crate::{
    PROFILES,
    exchange::{Conversation, Task, conversation_id},
    protocol::{Positions, WorkerMessage},
    rng::SeededRng,
};

/// Each of the two checks is made for one stored exchange in this many.
const LOOK_ONCE_IN: u64 = 4;

/// The last state that was read of each conversation.
pub(super) struct Watch {
    output: Output,
    seen: Mutex<HashMap<Conversation, Seen>>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    incarnation: Option<Incarnation>,
    len: u64,
    cuts: [Positions; PROFILES.len()],
}

impl Watch {
    pub(super) fn new(output: Output) -> Self {
        Self { output, seen: Mutex::default() }
    }

    /// Checks an exchange that was stored at this position: it must be found, and nothing may have gone back.
    pub(super) async fn own_write(
        &self,
        store: &dyn HistoryStore,
        task: Task,
        seq: u64,
        rng: &mut SeededRng,
    ) -> io::Result<()> {
        self.note(task.conversation, |seen| seen.len = seen.len.max(seq + 1));
        if rng.once_in(LOOK_ONCE_IN) {
            self.is_recorded(store, task, seq).await?;
        }
        if rng.once_in(LOOK_ONCE_IN) {
            self.nothing_goes_back(store, task.conversation, rng.index(PROFILES.len())).await?;
        }
        Ok(())
    }

    async fn is_recorded(&self, store: &dyn HistoryStore, task: Task, seq: u64) -> io::Result<()> {
        let (Ok(id), Ok(exchange)) = (conversation_id(task.conversation), task.name.exchange_id()) else {
            return Ok(());
        };
        match store.load(&id, Load::new().exchange(exchange)).await {
            // A load may fail.
            Err(error) if error.is_retryable() => Ok(()),
            Ok(Loaded::AlreadyRecorded(recorded)) if recorded.seq.get() == seq => Ok(()),
            Ok(Loaded::AlreadyRecorded(recorded)) => {
                let found = recorded.seq;
                self.output.violation(format!("{} was stored at {seq} and is found at {found}", task.name))
            }
            Ok(_) => self.output.violation(format!("{} was stored at {seq} and is not found", task.name)),
            Err(error) => self.output.violation(format!("{} cannot be looked up: {error}", task.name)),
        }
    }

    async fn nothing_goes_back(
        &self,
        store: &dyn HistoryStore,
        conversation: Conversation,
        profile: usize,
    ) -> io::Result<()> {
        // The state when the load begins. Other lanes may read later states during the load.
        let before = self.note(conversation, |_| ());
        let (Ok(id), Ok(name)) = (conversation_id(conversation), Profile::new(PROFILES[profile])) else {
            return Ok(());
        };
        let load = Load::new().profile(name).limit(LoadLimit::new(1, 1).unwrap_or_default());
        let window = match store.load(&id, load).await {
            Err(error) if error.is_retryable() => return Ok(()),
            Ok(Loaded::Window(window)) => window,
            Ok(_) => return self.output.violation(format!("c{conversation} is missing")),
            Err(error) => return self.output.violation(format!("c{conversation} cannot be loaded: {error}")),
        };
        let (incarnation, len) = (window.revision.incarnation(), window.revision.version());
        let at = match window.compaction.as_ref().map(Cuts::read).transpose() {
            Ok(cuts) => cuts.map(|cuts| positions(&cuts.cut)).unwrap_or_default(),
            Err(error) => return self.output.violation(format!("c{conversation}: a compaction is damaged: {error}")),
        };
        if before.incarnation.is_some_and(|before| before != incarnation) {
            self.output.violation(format!("c{conversation} has another incarnation"))?;
        }
        if len < before.len {
            self.output.violation(format!("c{conversation} had {} exchanges and has {len}", before.len))?;
        }
        if at.goes_back_from(before.cuts[profile]) {
            let was = before.cuts[profile];
            self.output
                .violation(format!("the compaction {profile} of c{conversation} went back from {was} to {at}"))?;
        }
        let mut grew = false;
        self.note(conversation, |seen| {
            seen.incarnation = Some(incarnation);
            seen.len = seen.len.max(len);
            let later = seen.cuts[profile].max(at);
            grew = later != seen.cuts[profile];
            seen.cuts[profile] = later;
        });
        if grew { self.output.write(&WorkerMessage::Cut { conversation, profile, at }) } else { Ok(()) }
    }

    /// Changes the last state of a conversation, and returns the one before.
    fn note(&self, conversation: Conversation, change: impl FnOnce(&mut Seen)) -> Seen {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.entry(conversation).or_default();
        let before = *seen;
        change(seen);
        before
    }
}

/// Returns the positions of a cut.
pub(crate) fn positions(cut: &Cut) -> Positions {
    Positions(
        [cut.window_start, cut.rounds_start, cut.cleared_before, cut.covers_to]
            .map(tower_chat_history::store::Seq::get),
    )
}
