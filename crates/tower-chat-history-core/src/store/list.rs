//! Listings of conversations, which not every store supports.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{HistoryStore, StoreError};
use crate::{
    conversation_id::{ConversationId, Prefix},
    exchange::Timestamp,
    invalid::InvalidValue,
    labels::{Labels, LabelsVersion},
    seq::{Incarnation, Revision},
};

/// A store that lists its conversations, and keeps [labels](Labels) for each.
///
/// # Contract
///
/// - **Order.** Conversations are listed in the order of their ids' text forms, compared byte by byte. A conversation
///   therefore never moves. A listing that continues at its cursor contains each conversation that exists throughout
///   exactly once, whatever others append, create and delete in the meantime.
/// - **Whole parts.** A listing contains only conversations that the [prefix contains](Prefix::contains).
/// - **Bounded.** A page costs the same among a thousand and among a million conversations, and does not depend on the
///   length of their logs.
/// - **Damage stays where it is.** A page does not fail because one conversation cannot be read. It names such a
///   conversation in [`damaged`](Listing::damaged), at its place in the order, and the cursor passes it. A store may
///   also pass and [count](Listing::foreign_keys) keys that are no ids.
/// - **Current.** A page is read at one time or conversation by conversation. Each entry is a state that the
///   conversation had during the call.
/// - **Labels belong to the conversation.** A [truncation](crate::Truncate) and a [prune](crate::Prune) keep them, and
///   a deletion removes them. A [fork](crate::Fork) does not copy them: its caller gives the copy its own.
///
/// The trait can be used as `Arc<dyn List>`. To test it with the conformance suite, add the store to the handle with
/// `Handle::erase`.
#[async_trait]
pub trait List: HistoryStore {
    /// Returns a page of the conversations under a prefix: at most `limit`, and after the cursor if there is one. The
    /// damaged ones count, too. A store may return fewer, and a page may be empty although there are more: only a page
    /// [without a cursor](Listing::next) is the last one. A limit of 0 counts as 1, because a page of none could not
    /// say where the next one begins.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, but not if only some of its conversations cannot be read.
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError>;

    /// Returns the entry of one conversation, or `None` if there is no such conversation.
    ///
    /// # Errors
    ///
    /// Returns an error if the store or this conversation cannot be read.
    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError>;

    /// Replaces all labels of a conversation, if the stored labels still have the version `replaces`.
    ///
    /// # Errors
    ///
    /// - [`Gone`](StoreError::Gone) if the incarnation has ended or there is no conversation.
    /// - [`Full`](StoreError::Full) if the store has a limit and the labels would exceed it.
    /// - Another error if the store cannot be written.
    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError>;
}

/// A page of a listing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The conversations, in the order of their ids.
    pub conversations: Vec<Listed>,
    /// The conversations of the page whose entries cannot be read, in the order of their ids. They can be deleted and
    /// erased.
    pub damaged: Vec<FailedConversation>,
    /// The number of keys among those of the page that are no ids of conversations. A store over several stores may
    /// count a key on more than one page.
    pub foreign_keys: u64,
    /// The place at which the next page begins, or `None` if this is the last page.
    pub next: Option<Cursor>,
}

impl Listing {
    /// Creates a page of these conversations, of which none is damaged. The next page begins at `next`.
    #[must_use]
    pub const fn new(conversations: Vec<Listed>, next: Option<Cursor>) -> Self {
        Self { conversations, damaged: Vec::new(), foreign_keys: 0, next }
    }

    /// Adds a conversation after those of the page, or the reason why it cannot be read.
    pub fn push(&mut self, id: ConversationId, entry: Result<Listed, StoreError>) {
        match entry {
            Ok(listed) => self.conversations.push(listed),
            Err(error) => self.damaged.push(FailedConversation::new(id, error)),
        }
    }

    /// Returns the number of conversations of the page, including the damaged ones.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.conversations.len() + self.damaged.len()
    }

    /// Returns `true` if the page has no conversation, not even a damaged one. There may be more pages.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the conversations and the damaged ones in the order of their ids.
    #[must_use]
    pub fn into_entries(self) -> Vec<Result<Listed, FailedConversation>> {
        let damaged = self.damaged.into_iter().map(Err);
        let mut entries: Vec<_> = self.conversations.into_iter().map(Ok).chain(damaged).collect();
        entries.sort_by(|one, other| entry_id(one).cmp(entry_id(other)));
        entries
    }
}

fn entry_id(entry: &Result<Listed, FailedConversation>) -> &str {
    entry.as_ref().map_or_else(|damaged| damaged.id.as_str(), |listed| listed.id.as_str())
}

/// A conversation for which a call failed, although the store can be used for others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedConversation {
    /// The conversation.
    pub id: ConversationId,
    /// The cause.
    pub error: Arc<StoreError>,
}

impl FailedConversation {
    /// Names the conversation and the cause.
    #[must_use]
    pub fn new(id: ConversationId, error: StoreError) -> Self {
        Self { id, error: Arc::new(error) }
    }
}

/// A conversation in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The conversation.
    pub id: ConversationId,
    /// The log's revision, which also has the number of exchanges ([`Revision::len`]).
    pub revision: Revision,
    /// The [time](crate::Exchange::at) of the exchange that created the conversation, or that of the
    /// [fork](crate::ForkTo::at). A prune or a truncation does not change it.
    pub created_at: Timestamp,
    /// The latest [time](crate::Exchange::at) of all exchanges that were ever appended, and of the
    /// [fork](crate::ForkTo::at) if it is a copy. A prune or a truncation does not change it.
    pub updated_at: Timestamp,
    /// The size of the log in bytes of message JSON, as in a [`LoadLimit`](crate::LoadLimit).
    pub bytes: u64,
    /// The labels.
    pub labels: Labels,
    /// The version of the labels, to name when they are [replaced](List::set_labels).
    pub labels_version: LabelsVersion,
}

impl Listed {
    /// Creates the entry of a conversation without labels.
    #[must_use]
    pub fn new(
        id: ConversationId,
        revision: Revision,
        created_at: Timestamp,
        updated_at: Timestamp,
        bytes: u64,
    ) -> Self {
        Self {
            id,
            revision,
            created_at,
            updated_at,
            bytes,
            labels: Labels::default(),
            labels_version: LabelsVersion::NONE,
        }
    }

    /// Sets the labels and their version. The default is no label.
    #[must_use]
    pub fn labels(mut self, labels: Labels, version: LabelsVersion) -> Self {
        self.labels = labels;
        self.labels_version = version;
        self
    }
}

/// The outcome of replacing labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelsOutcome {
    /// This call stored them, under this version.
    Stored(LabelsVersion),
    /// They were not stored: the stored labels have another version than the one to replace. These are the stored
    /// labels and their version.
    Kept(Labels, LabelsVersion),
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List + ?Sized> List for Arc<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        (**self).list(under, after, limit).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        (**self).describe(id).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        (**self).set_labels(id, incarnation, replaces, labels).await
    }
}

/// The version of the text form.
const VERSION: char = '1';

/// The place at which a [listing](crate::List::list) continues. It can be sent to a client and come back with the next
/// request: a forged cursor can skip conversations, but never shows one outside of the requested prefix.
///
/// The text form fits into a URL. It is opaque, but not secret: it contains the id of the last conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor(ConversationId);

impl Cursor {
    /// Creates the cursor that continues after this conversation. Stores use it.
    #[must_use]
    pub const fn after(last: ConversationId) -> Self {
        Self(last)
    }

    /// Returns the conversation after which the listing continues.
    #[must_use]
    pub const fn last(&self) -> &ConversationId {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}{}", URL_SAFE_NO_PAD.encode(self.0.as_str()))
    }
}

impl FromStr for Cursor {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = text.strip_prefix(VERSION).ok_or(InvalidValue::Cursor)?;
        let id = URL_SAFE_NO_PAD.decode(id).map_err(|_| InvalidValue::Cursor)?;
        let id = String::from_utf8(id).map_err(|_| InvalidValue::Cursor)?;
        id.parse().map(Self).map_err(|_| InvalidValue::Cursor)
    }
}

/// The largest number of conversations that are listed per call of the store.
const PAGE: usize = 500;

/// Convenience methods for every store that [lists](List) its conversations.
#[async_trait]
pub trait ListExt: List {
    /// Returns the `n` conversations under a prefix that were [updated](Listed::updated_at) last, newest first.
    ///
    /// Conversations are stored in the order of their ids. This method therefore lists the conversations under the
    /// prefix, but at most `walk` of them. If there are more, the result is that of the first `walk` ones, and
    /// [`Newest::is_complete`] is `false`. The prefix of one user usually has few enough conversations.
    ///
    /// ```
    /// use tower_chat_history_core::{List, ListExt, Prefix, StoreError};
    ///
    /// /// Returns the titles for a sidebar.
    /// async fn sidebar(store: &dyn List, user: &Prefix) -> Result<Vec<String>, StoreError> {
    ///     let newest = store.newest(user, 30, 10_000).await?;
    ///     let title = |labels: &tower_chat_history_core::Labels| labels.get("title").unwrap_or("Untitled").to_owned();
    ///     Ok(newest.conversations.iter().map(|listed| title(&listed.labels)).collect())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    async fn newest(&self, under: &Prefix, n: usize, walk: usize) -> Result<Newest, StoreError>;
}

#[async_trait]
impl<S: List + ?Sized> ListExt for S {
    async fn newest(&self, under: &Prefix, n: usize, walk: usize) -> Result<Newest, StoreError> {
        let mut newest: BTreeMap<(Timestamp, ConversationId), Listed> = BTreeMap::new();
        let mut after: Option<Cursor> = None;
        let mut left = walk;
        let mut damaged = 0;

        while left > 0 {
            let page = self.list(under, after.as_ref(), left.min(PAGE)).await?;
            // An empty page counts too, so that the number of pages is bounded.
            left = left.saturating_sub(page.len().max(1));
            damaged += page.damaged.len() as u64;
            for listed in page.conversations {
                newest.insert((listed.updated_at, listed.id.clone()), listed);
                if newest.len() > n {
                    newest.pop_first();
                }
            }

            after = page.next;
            if after.is_none() {
                return Ok(Newest { conversations: newest.into_values().rev().collect(), damaged, is_complete: true });
            }
        }

        Ok(Newest { conversations: newest.into_values().rev().collect(), damaged, is_complete: false })
    }
}

/// The conversations that were updated last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Newest {
    /// The conversations, newest first.
    pub conversations: Vec<Listed>,
    /// The number of damaged conversations that the walk passed. They are left out, because the time of their update
    /// cannot be read. [`Listing::damaged`](crate::Listing::damaged) names them.
    pub damaged: u64,
    /// `false` if there were more conversations than the walk allowed, so that newer ones may be missing.
    pub is_complete: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_the_order_of_their_ids() {
        let id = |text: &str| text.parse::<ConversationId>().unwrap();
        let mut page = Listing::default();
        for (text, is_damaged) in [("a", false), ("a-2", true), ("a/b", true), ("b", false)] {
            let (revision, at) = (Revision::new(Incarnation::random(), 1), Timestamp::from_unix_millis(0));
            let listed = Listed::new(id(text), revision, at, at, 0);
            page.push(id(text), if is_damaged { Err(StoreError::backend("damaged")) } else { Ok(listed) });
        }
        assert!(page.len() == 4 && !page.is_empty());
        assert_eq!(page.damaged.iter().map(|damaged| damaged.id.as_str()).collect::<Vec<_>>(), ["a-2", "a/b"]);
        let entries = page.into_entries();
        assert_eq!(entries.iter().map(entry_id).collect::<Vec<_>>(), ["a", "a-2", "a/b", "b"]);
    }

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn List>>, _: Option<&dyn List>) {}
        fn is_store<S: List + HistoryStore>() {}
        usable(None, None);
        is_store::<Arc<dyn List>>();
    }

    #[test]
    fn only_texts_of_cursors_parse() {
        let cursor = Cursor::after(ConversationId::new(["acme", "user 42"]).unwrap());
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for wrong in ["", "1", "2YWNtZQ", "acme", "1YWNtZQ==", "1/w", "1_w"] {
            assert_eq!(wrong.parse::<Cursor>(), Err(InvalidValue::Cursor), "{wrong}");
        }
    }
}
