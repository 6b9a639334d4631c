//! Conversations under one prefix, in stores that list and erase.

use std::sync::Arc;

use tower_chat_history_core::{
    Append, Appended, ConversationId, Cursor, Epoch, Erase, Exchange, Expect, Labels, LabelsOutcome, LabelsVersion,
    Listed, Load, Loaded, Prefix, Recorded, Removed, StoreError,
};

use super::{
    Capability, Fixture,
    support::{Chat, Must, unused_id},
};
use crate::clause::{self, Clause};

/// The last parts of ids that are under the prefix `acme`, or whose text forms are close to that.
pub(super) const COLLIDING: [&[&str]; 13] = [
    &["ACME"],
    &["acm"],
    &["acme"],
    &["acme!"],
    &["acme/a"],
    &["acme\u{e9}"],
    &["acme-2"],
    &["acme.x"],
    &["acme", "a"],
    &["acme", "a", "deep"],
    &["acme", "a-2"],
    &["acme0"],
    &["acmea"],
];

/// Conversations that no other behavior uses, in a store that lists and erases. Their ids begin with the same unused
/// parts.
pub(super) struct Owned {
    pub(super) store: Arc<dyn Erase>,
    base: ConversationId,
}

impl Owned {
    /// Chooses a prefix under which no conversation exists yet.
    pub(super) async fn new(fixture: &dyn Fixture) -> Self {
        Self::at(fixture, unused_id([])).await
    }

    async fn at(fixture: &dyn Fixture, base: ConversationId) -> Self {
        let Some(store) = fixture.open_erase().await else { Capability::Erase.lacking() };
        Self { store, base }
    }

    /// Returns the same conversations through another handle.
    pub(super) async fn reopened(&self, fixture: &dyn Fixture) -> Self {
        Self::at(fixture, self.base.clone()).await
    }

    /// Returns the id with these parts after the unused ones.
    pub(super) fn id(&self, parts: &[&str]) -> ConversationId {
        let base: Vec<_> = self.base.parts().collect();
        let parts = base.iter().map(AsRef::as_ref).chain(parts.iter().copied());
        ConversationId::new(parts).expect("the parts are legal")
    }

    /// Returns the prefix with these parts after the unused ones.
    pub(super) fn under(&self, parts: &[&str]) -> Prefix {
        Prefix::from(&self.id(parts))
    }

    /// Returns the conversation with these parts after the unused ones.
    pub(super) fn chat(&self, parts: &[&str]) -> Chat {
        Chat { store: Arc::new(Arc::clone(&self.store)), id: self.id(parts) }
    }

    /// Returns a conversation for each of the [`COLLIDING`] parts, in the order of a listing. Each has one exchange.
    pub(super) async fn colliding(&self) -> Vec<Chat> {
        let mut chats: Vec<Chat> = COLLIDING.iter().map(|parts| self.chat(parts)).collect();
        for chat in &chats {
            chat.add(super::support::turn_of(chat.id.as_str())).await;
        }
        chats.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
        chats
    }

    /// Lists everything under a prefix, in pages of this size. The pages must obey the limit and the order.
    pub(super) async fn list(&self, under: &Prefix, limit: usize) -> Vec<Listed> {
        self.list_after(under, None, limit).await
    }

    /// Does the same from a cursor on.
    pub(super) async fn list_after(&self, under: &Prefix, after: Option<Cursor>, limit: usize) -> Vec<Listed> {
        const CLAUSE: Clause = clause::LIST_ORDER;
        let (mut listed, mut after): (Vec<Listed>, _) = (Vec::new(), after);
        loop {
            let page =
                self.store.list(under, after.as_ref(), limit).await.must("a prefix can be listed", &clause::LIST);
            assert!(page.conversations.len() <= limit, "{} entries, of {limit}", page.conversations.len());
            for entry in page.conversations {
                assert!(under.contains(&entry.id), "{}, under {under}", entry.id);
                let last = listed.last().map(|last| &last.id).or(after.as_ref().map(Cursor::last));
                assert!(last.is_none_or(|last| last.as_str() < entry.id.as_str()), "{} after {last:?}", entry.id);
                listed.push(entry);
            }
            after = further(after.as_ref(), page.next);
            if after.is_none() {
                return listed;
            }
        }
    }

    /// Returns the entry of a conversation, which must be the same in a listing.
    pub(super) async fn entry(&self, chat: &Chat) -> Listed {
        const CLAUSE: Clause = clause::DESCRIBE;
        let described = self.describe(chat).await;
        let listed = self.list(&Prefix::from(&chat.id), 10).await.into_iter().find(|entry| entry.id == chat.id);
        assert_eq!(listed, described);
        described.must("the conversation is there", &CLAUSE)
    }

    pub(super) async fn describe(&self, chat: &Chat) -> Option<Listed> {
        self.store.describe(&chat.id).await.must("a conversation can be described", &clause::DESCRIBE)
    }

    /// Sets labels, which must be stored, and returns their version.
    pub(super) async fn label(&self, chat: &Chat, replaces: LabelsVersion, labels: &Labels) -> LabelsVersion {
        const CLAUSE: Clause = clause::LABELS;
        let outcome = self.store.set_labels(&chat.id, chat.incarnation().await, replaces, labels.clone()).await;
        match outcome.must("the labels are legal", &CLAUSE) {
            LabelsOutcome::Stored(version) => version,
            other @ LabelsOutcome::Kept(..) => unexpected!("the labels to be stored", other),
        }
    }

    pub(super) async fn bar(&self, under: &Prefix) {
        self.store.bar(under).await.must("a prefix can be barred", &clause::BAR);
    }

    /// Erases everything under a prefix, in pages of this size, and returns the sums.
    pub(super) async fn erase(&self, under: &Prefix, limit: usize) -> Removed {
        const CLAUSE: Clause = clause::ERASE_PAGE;
        let (mut removed, mut after): (Removed, Option<Cursor>) = Default::default();
        loop {
            let page = self.store.erase(under, after.as_ref(), limit).await.must("a prefix can be erased", &CLAUSE);
            let total = page.removed.total();
            let stores = page.removed.iter().count();
            assert!(total.conversations <= limit.max(stores) as u64, "{total:?}, of {limit} conversations");
            removed += total;
            after = further(after.as_ref(), page.next);
            if after.is_none() {
                return removed;
            }
        }
    }

    pub(super) async fn count(&self, under: &Prefix) -> Removed {
        self.store.count(under).await.must("a prefix can be counted", &clause::COUNT).total()
    }

    /// Asserts that nothing is stored under a prefix.
    pub(super) async fn assert_nothing(&self, under: &Prefix) {
        const CLAUSE: Clause = clause::COUNT;
        assert_eq!(self.count(under).await, Removed::default());
        assert_eq!(self.list(under, 10).await, []);
    }
}

/// Returns the cursor of the next page, which must be after that of this page.
#[track_caller]
pub(super) fn further(after: Option<&Cursor>, next: Option<Cursor>) -> Option<Cursor> {
    const CLAUSE: Clause = clause::LIST_ORDER;
    if let (Some(after), Some(next)) = (after, &next) {
        assert!(after.last().as_str() < next.last().as_str(), "the cursor {next:?} after {after:?}");
    }
    next
}

/// Returns the numbers of these logs, without compactions and labels.
pub(super) fn numbers_of<'a>(logs: impl IntoIterator<Item = &'a [Recorded]>) -> Removed {
    let mut numbers = Removed::default();
    for log in logs {
        numbers.conversations += 1;
        numbers.exchanges += log.len() as u64;
        numbers.exchange_ids += log.len() as u64;
        numbers.bytes += bytes_of(log);
    }
    numbers
}

/// Returns the bytes of message JSON in a log.
pub(super) fn bytes_of(log: &[Recorded]) -> u64 {
    log.iter().map(|recorded| recorded.exchange.bytes() as u64).sum()
}

/// Returns labels with these names and values.
pub(super) fn labels<const N: usize>(labels: [(&str, &str); N]) -> Labels {
    Labels::new(labels).expect("the labels are legal")
}

/// The first turns of conversations.
impl Chat {
    /// Loads the conversation, which must be absent, and returns the epoch.
    pub(super) async fn epoch(&self) -> Epoch {
        const CLAUSE: Clause = clause::EPOCH;
        match self.load(Load::new()).await {
            Loaded::Absent(epoch) => epoch,
            other => unexpected!("an absent conversation", other),
        }
    }

    /// Appends an exchange whose call began at this epoch.
    pub(super) async fn append_since(
        &self,
        epoch: Epoch,
        expect: Expect,
        exchange: Exchange,
    ) -> Result<Appended, StoreError> {
        self.store.append(&self.id, Append::new(expect, exchange).since(Some(epoch))).await
    }
}

/// The number of times that a behavior tries a first turn that must not be refused.
///
/// Another behavior that uses the same storage bars all conversations, so one of the attempts may be refused.
const ATTEMPTS: usize = 20;

/// Repeats a part of a behavior that must succeed, unless all conversations were barred in the meantime. The part
/// returns `None` if a first turn was refused with `Gone`.
pub(super) async fn must_land<T, F: Future<Output = Option<T>> + Send>(mut part: impl FnMut() -> F + Send) -> T {
    const CLAUSE: Clause = clause::SINCE;
    for _ in 0..ATTEMPTS {
        if let Some(done) = part().await {
            return done;
        }
    }
    unexpected!("the first turn to be stored, because its conversation was not erased", StoreError::Gone)
}

/// Returns `None` if an append was refused with `Gone`, for [`must_land`].
#[track_caller]
pub(super) fn landed(result: Result<Appended, StoreError>) -> Option<Appended> {
    match result {
        Err(StoreError::Gone) => None,
        result => Some(result.must("the conversation was not erased", &clause::SINCE)),
    }
}
