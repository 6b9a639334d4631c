//! A log into which exchanges are copied.

use std::collections::VecDeque;

use tower_chat_history_core::{
    Append, ConversationId, Epoch, Exchange, Expect, HistoryStore, Load, Loaded, Recorded, Revision, Seq, StoreError,
    management::TARGET,
};

use super::report::Reason;

/// The number of stored exchanges that are read per call of the store, to compare them.
const PAGE: usize = 32;

/// The log of a conversation that is imported.
#[derive(Debug)]
pub(crate) struct Log {
    id: ConversationId,
    revision: Option<Revision>,
    /// The epoch at which there was no such conversation.
    epoch: Option<Epoch>,
    /// The position at which the log begins if it is created.
    first: Seq,
    next: Seq,
    /// Stored exchanges from `next` on, which were read but not compared yet.
    stored: VecDeque<Recorded>,
    /// The number of exchanges that were appended.
    appended: u64,
}

/// The outcome for one exchange.
#[derive(Debug)]
pub(crate) enum Put {
    Stored,
    Present,
    Pruned,
    Refused(Reason),
}

impl Log {
    /// Reads the state of the log. If it is created, it begins at the position `first`.
    pub(crate) async fn open(
        store: &(impl HistoryStore + ?Sized),
        id: ConversationId,
        first: Seq,
    ) -> Result<Self, StoreError> {
        let mut revision = store.read(&id, Seq::FIRST, 0).await?.revision;
        let mut epoch = None;
        if revision.is_none() {
            match store.load(&id, Load::new()).await? {
                Loaded::Absent(now) => epoch = Some(now),
                Loaded::Window(window) => revision = Some(window.revision),
                // The load named neither a known state nor an exchange.
                Loaded::Unchanged | Loaded::Added(_) | Loaded::AlreadyRecorded(_) => {}
            }
        }
        Ok(Self { id, revision, epoch, first, next: first, stored: VecDeque::new(), appended: 0 })
    }

    /// Returns the revision of the log, or `None` if there is no such conversation yet.
    pub(crate) const fn revision(&self) -> Option<Revision> {
        self.revision
    }

    /// Stores the exchange at the next position, or compares it with the stored one.
    pub(crate) async fn put(
        &mut self,
        store: &(impl HistoryStore + ?Sized),
        exchange: Exchange,
    ) -> Result<Put, StoreError> {
        let seq = self.next;
        let put = match self.revision {
            Some(revision) if seq < revision.first() => Ok(Put::Pruned),
            Some(revision) if seq < revision.next() => self.compare(store, &exchange).await,
            Some(revision) if seq > revision.next() => Ok(Put::Refused(Reason::Gap(seq))),
            Some(_) | None => self.append(store, exchange).await,
        };
        self.next = seq.next();

        match put {
            Err(source) if may_concern_one_conversation(&source) => Ok(Put::Refused(Reason::Store { seq, source })),
            put => put,
        }
    }

    async fn compare(&mut self, store: &(impl HistoryStore + ?Sized), exchange: &Exchange) -> Result<Put, StoreError> {
        if self.stored.is_empty() {
            let page = store.read(&self.id, self.next, PAGE).await?;
            let incarnation = self.revision.map(|revision| revision.incarnation());
            if page.revision.map(|revision| revision.incarnation()) != incarnation {
                return Ok(Put::Refused(Reason::Changed));
            }
            self.stored = page.exchanges.into();
        }
        Ok(match self.stored.pop_front() {
            Some(stored) if stored.seq != self.next => Put::Refused(Reason::Changed),
            Some(stored) if is_same(&stored.exchange, exchange) => Put::Present,
            Some(_) => Put::Refused(Reason::Other(self.next)),
            None => Put::Refused(Reason::Changed),
        })
    }

    async fn append(&mut self, store: &(impl HistoryStore + ?Sized), exchange: Exchange) -> Result<Put, StoreError> {
        let expect = self.revision.map_or(Expect::Absent, Expect::Exactly);
        let append = Append::new(expect, exchange).since(self.epoch).beginning_at(self.first);
        let (appended, is_repeated) = match store.append(&self.id, append.clone()).await {
            // The outcome is unknown. Repeated under the same id, it is stored once.
            Err(error) if error.is_retryable() => (store.append(&self.id, append).await, true),
            appended => (appended, false),
        };

        let appended = match appended {
            Ok(appended) => appended,
            Err(StoreError::Conflict { .. } | StoreError::Gone) => return Ok(Put::Refused(Reason::Changed)),
            Err(StoreError::ContinuesUnknown { .. }) => return Ok(Put::Refused(Reason::Refused(self.next))),
            Err(error) => return Err(error),
        };

        if appended.seq != self.next {
            return Ok(Put::Refused(Reason::Elsewhere(self.next)));
        }
        if appended.duplicate && !is_repeated {
            return Ok(Put::Refused(Reason::Changed));
        }

        self.revision = Some(appended.revision);
        self.epoch = None;
        self.appended += 1;
        Ok(Put::Stored)
    }
}

// Also if the import fails or is dropped, because it may have stored something.
impl Drop for Log {
    fn drop(&mut self) {
        if self.appended > 0 {
            tracing::info!(target: TARGET, action = "import", conversation = %self.id, exchanges = self.appended);
        }
    }
}

/// Returns `true` if the store may have failed for one conversation only, so that others can be imported.
pub(crate) const fn may_concern_one_conversation(error: &StoreError) -> bool {
    matches!(error, StoreError::Backend { .. } | StoreError::Corrupt { .. } | StoreError::CorruptCompaction { .. })
}

/// Returns `true` if both are the same exchange. Only its id and its messages count: its token counts, for example, may
/// have been exported by another counter.
fn is_same(stored: &Exchange, other: &Exchange) -> bool {
    stored.id == other.id && stored.messages == other.messages
}
