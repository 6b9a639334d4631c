//! The conversations that changed last.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{
    conversation_id::ConversationId,
    cursor::Cursor,
    prefix::Prefix,
    store::{List, Listed, StoreError},
    timestamp::Timestamp,
};

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
        let (mut left, mut damaged) = (walk, 0);
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
