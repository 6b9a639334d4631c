//! Conversations under one prefix, in stores that list and erase.

use std::sync::Arc;

use tower_chat_history_core::Erase;

use super::support::*;

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
    handle: Handle,
    base: ConversationId,
}

impl Owned {
    /// Chooses a prefix under which no conversation exists yet.
    pub(super) async fn new(fixture: &dyn Fixture) -> Self {
        Self { handle: fixture.open().await, base: unused_id() }
    }

    /// Returns the same conversations through another handle.
    pub(super) async fn reopened(&self, fixture: &dyn Fixture) -> Self {
        Self { handle: fixture.open().await, base: self.base.clone() }
    }

    pub(super) fn store(&self) -> &Arc<dyn Erase> {
        self.handle.erasing()
    }

    /// Returns the conversation with these parts after the unused ones.
    pub(super) fn chat(&self, parts: &[&str]) -> Chat {
        Chat { store: self.handle.clone(), id: below(&self.base, parts) }
    }

    /// Returns the prefix with these parts after the unused ones.
    pub(super) fn under(&self, parts: &[&str]) -> Prefix {
        Prefix::from(&below(&self.base, parts))
    }

    /// Returns a conversation for each of the [`COLLIDING`] parts, in the order of a listing. Each has one exchange.
    pub(super) async fn colliding(&self) -> Vec<Chat> {
        let mut chats: Vec<Chat> = COLLIDING.iter().map(|parts| self.chat(parts)).collect();
        for chat in &chats {
            chat.add(turn_of(chat.id.as_str())).await;
        }
        chats.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
        chats
    }

    /// Lists everything under a prefix after a cursor, in pages of this size. The pages must obey the limit and the
    /// order.
    pub(super) async fn list_after(&self, under: &Prefix, mut after: Option<Cursor>, limit: usize) -> Vec<Listed> {
        let mut listed: Vec<Listed> = Vec::new();
        loop {
            let page = self.store().list(under, after.as_ref(), limit).await.unwrap();
            assert!(page.conversations.len() <= limit.max(1), "a page has at most {limit}: {page:?}");
            for entry in page.conversations {
                assert!(under.contains(&entry.id), "{} is not under {under}", entry.id);
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

    pub(super) async fn list(&self, under: &Prefix, limit: usize) -> Vec<Listed> {
        self.list_after(under, None, limit).await
    }

    /// Returns the ids that a listing of all conversations has.
    pub(super) async fn ids(&self) -> Vec<ConversationId> {
        self.ids_under(&self.under(&[]), 100).await
    }

    pub(super) async fn ids_under(&self, under: &Prefix, limit: usize) -> Vec<ConversationId> {
        self.list(under, limit).await.into_iter().map(|entry| entry.id).collect()
    }

    pub(super) async fn describe(&self, chat: &Chat) -> Option<Listed> {
        self.store().describe(&chat.id).await.unwrap()
    }

    /// Returns the entry of a conversation, which must be the same in a listing.
    pub(super) async fn entry(&self, chat: &Chat) -> Listed {
        let described = self.describe(chat).await;
        let listed = self.list(&Prefix::from(&chat.id), 10).await.into_iter().find(|entry| entry.id == chat.id);
        assert_eq!(listed, described);
        described.unwrap()
    }

    /// Sets labels, which must be stored, and returns their version.
    pub(super) async fn label(&self, chat: &Chat, replaces: LabelsVersion, labels: &Labels) -> LabelsVersion {
        let incarnation = chat.incarnation().await;
        match self.store().set_labels(&chat.id, incarnation, replaces, labels.clone()).await.unwrap() {
            LabelsOutcome::Stored(version) => version,
            other @ LabelsOutcome::Kept(..) => panic!("the labels are stored: {other:?}"),
        }
    }

    /// Sets the title as the only label.
    pub(super) async fn set_title(
        &self,
        chat: &Chat,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        title: &str,
    ) -> Result<LabelsOutcome, StoreError> {
        self.store().set_labels(&chat.id, incarnation, replaces, titled(title)).await
    }

    pub(super) async fn bar(&self, under: &Prefix) {
        self.store().bar(under).await.unwrap();
    }

    /// Erases everything under a prefix, in pages of this size, and returns the sums.
    pub(super) async fn erase(&self, under: &Prefix, limit: usize) -> Removed {
        let mut removed = Removed::default();
        let mut after = None;
        loop {
            let page = self.store().erase(under, after.as_ref(), limit).await.unwrap();
            // A store that consists of several stores may erase one in each.
            let stores = page.removed.iter().count();
            let total = page.removed.total();
            assert!(total.conversations <= limit.max(stores) as u64, "a page erases at most {limit}: {total:?}");
            removed += total;

            after = further(after.as_ref(), page.next);
            if after.is_none() {
                return removed;
            }
        }
    }

    pub(super) async fn erase_if(&self, chat: &Chat, revision: Revision) -> Option<Removed> {
        self.store().erase_if(&chat.id, revision).await.unwrap()
    }

    pub(super) async fn count(&self, under: &Prefix) -> Removed {
        self.store().count(under).await.unwrap().total()
    }

    /// Asserts that nothing is stored under a prefix.
    pub(super) async fn assert_nothing(&self, under: &Prefix) {
        assert_eq!(self.count(under).await, Removed::default());
        assert_eq!(self.list(under, 10).await, []);
    }
}

/// Returns the cursor of the next page, which must be after that of this page.
#[track_caller]
pub(super) fn further(after: Option<&Cursor>, next: Option<Cursor>) -> Option<Cursor> {
    if let (Some(after), Some(next)) = (after, &next) {
        assert!(after.last().as_str() < next.last().as_str(), "the cursor {next:?} after {after:?}");
    }
    next
}

/// Returns the ids of these conversations that the prefix contains.
pub(super) fn ids_in(under: &Prefix, chats: &[Chat]) -> Vec<ConversationId> {
    chats.iter().map(|chat| chat.id.clone()).filter(|id| under.contains(id)).collect()
}

/// Returns the numbers of these logs, without compactions and labels.
pub(super) fn numbers_of(logs: &[impl AsRef<[Recorded]>]) -> Removed {
    let mut numbers = Removed::default();
    for log in logs {
        let log = log.as_ref();
        numbers.conversations += 1;
        numbers.exchanges += log.len() as u64;
        numbers.exchange_ids += log.len() as u64;
        numbers.bytes += bytes_of(log);
    }
    numbers
}

/// Returns labels with these names and values.
pub(super) fn labels<const N: usize>(labels: [(&str, &str); N]) -> Labels {
    Labels::new(labels).unwrap()
}

/// Returns labels with this title.
pub(super) fn titled(title: &str) -> Labels {
    labels([("title", title)])
}
