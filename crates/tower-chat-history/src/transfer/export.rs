//! Export of conversations.

use std::{collections::VecDeque, sync::Arc};

use futures_core::Stream;
use futures_util::stream;
use serde::Serialize;
use tower_chat_history_core::{
    ConversationId, Cursor, Cuts, Digest, FailedConversation, List, Listed, Load, LoadLimit, Loaded, Page, Prefix,
    Profile, Revision, Seq, StoreError, management::TARGET,
};

use crate::transfer::line::{ConversationLine, EndLine, ExportCut, read_cuts, write};

/// The number of conversations that are listed per call of the store.
const LIST_PAGE: usize = 100;

/// The number of exchanges that are read per call of the store.
const READ_PAGE: usize = 64;

/// The number of attempts to read the beginning of a log that changes.
const ATTEMPTS: usize = 5;

/// The largest number of conversations that a report names.
const MAX_NAMED: usize = 1_000;

/// An export of all conversations under a prefix, line by line.
///
/// The lines have this module's [format](mod@crate::transfer::format), without line breaks at their ends. The memory
/// that it needs does not depend on the number of conversations and on the lengths of their logs: it holds one page of
/// a listing and one page of a log.
///
/// # Consistency
///
/// Each conversation is exported as it was at one time: exchanges that are appended later are not in the export. If a
/// log is truncated, pruned or deleted after its first page was read, the rest of the old log is gone. Its part of the
/// export then ends early, and [says so](crate::transfer::ExportCut::Changed), as does the
/// [report](Self::report). Export it again. Different conversations are exported as of different times.
///
/// ```
/// use std::{io::Write, sync::Arc};
/// use tower_chat_history_core::{List, Prefix};
/// use tower_chat_history::transfer::{Export, ExportOptions};
///
/// async fn save(store: Arc<dyn List>, user: Prefix, file: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
///     let mut export = Export::new(store, user, ExportOptions::new());
///     while let Some(line) = export.next_line().await? {
///         writeln!(file, "{line}")?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Export {
    sources: Sources,
    under: Prefix,
    /// Lines that were not returned yet.
    ready: VecDeque<String>,
    /// Conversations that were listed but not exported yet.
    listed: VecDeque<Listed>,
    next: Next,
    part: Option<Part>,
    report: ExportReport,
}

/// The part of an export that follows the listed conversations.
#[derive(Debug)]
enum Next {
    Header,
    Page(Option<Cursor>),
    Done,
    Nothing,
}

impl Export {
    /// Creates an export. Nothing is read yet.
    #[must_use]
    pub fn new(store: Arc<dyn List>, under: Prefix, options: ExportOptions) -> Self {
        Self {
            sources: Sources { store, options },
            under,
            ready: VecDeque::new(),
            listed: VecDeque::new(),
            next: Next::Header,
            part: None,
            report: ExportReport::default(),
        }
    }

    /// Returns the next line, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read. Begin a new export then. Damage is not an error: if an exchange
    /// cannot be read, the part of its conversation ends before it. If the entry of a conversation cannot be read, the
    /// export has nothing of it. The report names both.
    pub async fn next_line(&mut self) -> Result<Option<String>, StoreError> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                self.report.bytes += line.len() as u64 + 1;
                return Ok(Some(line));
            }

            if let Some(part) = &mut self.part {
                if part.step(&self.sources, &mut self.ready, &mut self.report).await? {
                    self.part = None;
                }
            } else if let Some(listed) = self.listed.front() {
                self.part = Part::begin(&self.sources, listed.clone(), &mut self.ready, &mut self.report).await?;
                self.listed.pop_front();
            } else if !self.advance().await? {
                return Ok(None);
            }
        }
    }

    /// Lists the next conversations, or makes the first or the last line. Returns `false` after the last one.
    async fn advance(&mut self) -> Result<bool, StoreError> {
        self.next = match &self.next {
            Next::Header => {
                self.ready.push_back(write::header());
                Next::Page(None)
            }
            Next::Page(after) => {
                let page = self.sources.store.list(&self.under, after.as_ref(), LIST_PAGE).await?;
                for damaged in &page.damaged {
                    self.report.damaged(damaged);
                }
                self.report.foreign_keys += page.foreign_keys;
                self.listed.extend(page.conversations);
                page.next.map_or(Next::Done, |after| Next::Page(Some(after)))
            }
            Next::Done => {
                self.ready.push_back(write::done(self.report.conversations));
                Next::Nothing
            }
            Next::Nothing => return Ok(false),
        };
        Ok(true)
    }

    /// Returns the numbers so far.
    #[must_use]
    pub const fn report(&self) -> &ExportReport {
        &self.report
    }

    /// Returns the lines as a stream, for example for the body of an HTTP response. It ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<String, StoreError>> + Send {
        stream::unfold(Some(self), |export| async {
            let mut export = export?;
            match export.next_line().await {
                Ok(line) => line.map(|line| (Ok(line), Some(export))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

// Also if it fails or is dropped, because the lines so far were handed out.
impl Drop for Export {
    fn drop(&mut self) {
        tracing::info!(
            target: TARGET,
            action = "export",
            under = %self.under,
            conversations = self.report.conversations,
            exchanges = self.report.exchanges,
            bytes = self.report.bytes,
        );
    }
}

/// The parts of conversations to export besides their logs and labels. By default, there are none.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    profiles: Vec<Profile>,
    with_recall: bool,
}

impl ExportOptions {
    /// Creates options to export logs and labels only.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the compactions of these profiles, with their summaries. The default is none. The default profile is
    /// [`Profile::default`].
    #[must_use]
    pub fn compactions(mut self, profiles: impl IntoIterator<Item = Profile>) -> Self {
        self.profiles = profiles.into_iter().collect();
        self
    }

    /// Adds the [recalled messages](tower_chat_history_core::Exchange::recalled) and the
    /// [provenance](tower_chat_history_core::Exchange::provenance) of each exchange. The default is `false`. Set it if
    /// the conversations move to another store: without the provenance, signed reasoning is not sent again.
    #[must_use]
    pub const fn recall_data(mut self, is_exported: bool) -> Self {
        self.with_recall = is_exported;
        self
    }
}

/// The numbers of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExportReport {
    /// The conversations, including those that are not whole, but not damaged ones.
    pub conversations: u64,
    /// The exchanges.
    pub exchanges: u64,
    /// The compactions.
    pub compactions: u64,
    /// The size of the lines, in bytes.
    pub bytes: u64,
    /// The number of conversations that are missing as a whole, because the store cannot read their entries.
    pub damaged: u64,
    /// The number of keys in the store that are no ids of conversations. Another program wrote them.
    pub foreign_keys: u64,
    /// The number of conversations of which a part is missing, including those that are missing as a whole.
    pub not_whole: u64,
    /// The first 1,000 reasons. A conversation can have several, one after the other. Conversations are named in the
    /// order of the listing, page by page. Of each page, those that are missing as a whole come first.
    pub named: Vec<NotWhole>,
    /// The last conversation that is not whole.
    #[serde(skip)]
    last: Option<ConversationId>,
}

/// A conversation of which a part is missing in an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotWhole {
    /// The conversation.
    pub id: ConversationId,
    /// The reason, for people.
    pub reason: String,
}

impl ExportReport {
    fn cut(&mut self, id: &ConversationId, cut: ExportCut, detail: &str) {
        self.missing(id, format!("{cut}{detail}"));
    }

    /// Counts and names a conversation whose entry cannot be read.
    fn damaged(&mut self, conversation: &FailedConversation) {
        self.damaged += 1;
        self.missing(&conversation.id, format!("the conversation is missing: {}", conversation.error));
    }

    fn missing(&mut self, id: &ConversationId, reason: String) {
        // A conversation can lack several parts, one after the other.
        if self.last.as_ref() != Some(id) {
            self.not_whole += 1;
            self.last = Some(id.clone());
        }
        if self.named.len() < MAX_NAMED {
            self.named.push(NotWhole { id: id.clone(), reason });
        }
    }
}

/// The store and the parts to export.
#[derive(Debug)]
struct Sources {
    store: Arc<dyn List>,
    options: ExportOptions,
}

/// The conversation that is exported.
#[derive(Debug)]
struct Part {
    listed: Listed,
    /// The position of the next exchange.
    next: Seq,
    digest: Digest,
    end: EndLine,
    compactions: Vec<(Profile, Cuts)>,
    /// The first page, which was read before the first line was made.
    page: Option<Page>,
}

impl Part {
    /// Makes the first line of a conversation. Returns `None` if there is no such conversation any more.
    async fn begin(
        sources: &Sources,
        mut listed: Listed,
        ready: &mut VecDeque<String>,
        report: &mut ExportReport,
    ) -> Result<Option<Self>, StoreError> {
        for _ in 0..ATTEMPTS {
            let (compactions, unread) = compactions(sources, &listed).await?;

            let page = match sources.store.read(&listed.id, listed.revision.first(), READ_PAGE).await {
                // The page is read again, exchange by exchange.
                Err(StoreError::Corrupt { .. }) => None,
                page => Some(page?),
            };

            let first = page.as_ref().and_then(|page| page.revision);
            if page.is_none() || first.is_some_and(|first| has_same_beginning(first, listed.revision)) {
                for reason in unread {
                    report.missing(&listed.id, reason);
                }
                return Ok(Some(Self::new(listed, compactions, page, ready, report)));
            }
            // The log changed since it was listed.
            match sources.store.describe(&listed.id).await? {
                Some(now) => listed = now,
                None => return Ok(None),
            }
        }

        let mut part = Self::new(listed, Vec::new(), None, ready, report);
        part.finish(Some((ExportCut::Changed, String::new())), ready, report);
        Ok(None)
    }

    fn new(
        listed: Listed,
        compactions: Vec<(Profile, Cuts)>,
        page: Option<Page>,
        ready: &mut VecDeque<String>,
        report: &mut ExportReport,
    ) -> Self {
        report.conversations += 1;
        let next = listed.revision.first();
        let (line, digest) = write::conversation(&ConversationLine {
            id: listed.id.clone(),
            first: next,
            created_at: Some(listed.created_at),
            updated_at: Some(listed.updated_at),
            labels: listed.labels.clone(),
        });
        ready.push_back(line);
        let end = EndLine { exchanges: 0, compactions: 0, cut: None, digest: None };
        Self { digest, listed, next, end, compactions, page }
    }

    /// Makes the lines of the next page. Returns `true` after the last line of the conversation.
    async fn step(
        &mut self,
        sources: &Sources,
        ready: &mut VecDeque<String>,
        report: &mut ExportReport,
    ) -> Result<bool, StoreError> {
        let page = match self.page.take() {
            Some(page) => page,
            None => match self.read(sources).await {
                Err(StoreError::Corrupt { seq, .. }) => {
                    self.finish(Some((ExportCut::Damaged, format!(" (position {seq})"))), ready, report);
                    return Ok(true);
                }
                page => page?,
            },
        };

        let revision = page.revision.filter(|now| now.incarnation() == self.listed.revision.incarnation());
        let end = self.listed.revision.next();
        for recorded in page.exchanges.into_iter().take_while(|recorded| revision.is_some() && recorded.seq < end) {
            if recorded.seq != self.next {
                break;
            }

            let with_recall = sources.options.with_recall;
            let written = write::exchange(self.digest, recorded.seq, &recorded.exchange, with_recall);
            let (line, digest) = written.map_err(StoreError::backend)?;
            ready.push_back(line);
            self.digest = digest;
            self.next = self.next.next();
            self.end.exchanges += 1;
            report.exchanges += 1;
        }

        if self.next >= end {
            self.write_compactions(ready, report)?;
            self.finish(None, ready, report);
            return Ok(true);
        }
        if ready.is_empty() {
            // The rest of the log is gone.
            self.finish(Some((ExportCut::Changed, String::new())), ready, report);
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads the next page. If it has a damaged exchange, reads one exchange.
    async fn read(&self, sources: &Sources) -> Result<Page, StoreError> {
        let store = &sources.store;
        match store.read(&self.listed.id, self.next, READ_PAGE).await {
            Err(StoreError::Corrupt { .. }) => store.read(&self.listed.id, self.next, 1).await,
            page => page,
        }
    }

    fn write_compactions(&mut self, ready: &mut VecDeque<String>, report: &mut ExportReport) -> Result<(), StoreError> {
        let next = self.listed.revision.next().get();
        for (profile, cuts) in std::mem::take(&mut self.compactions) {
            // A compaction of a later state of the log is left out.
            if cuts.cut.check(None, next, |_| true).is_err() {
                let profile = profile.as_str();
                report.missing(&self.listed.id, format!("the compaction of profile {profile:?} is of a later state"));
                continue;
            }

            let written = write::compaction(self.digest, &profile, &cuts);
            let (line, digest) = written.map_err(StoreError::backend)?;
            ready.push_back(line);
            self.digest = digest;
            self.end.compactions += 1;
            report.compactions += 1;
        }
        Ok(())
    }

    fn finish(&mut self, cut: Option<(ExportCut, String)>, ready: &mut VecDeque<String>, report: &mut ExportReport) {
        if let Some((cut, detail)) = &cut {
            report.cut(&self.listed.id, *cut, detail);
        }
        self.end.cut = cut.map(|(cut, _)| cut);
        self.end.digest = Some(self.digest);
        ready.push_back(write::end(&self.end));
    }
}

/// Returns `true` if a log at revision `now` still has all exchanges that it had at `then`.
fn has_same_beginning(now: Revision, then: Revision) -> bool {
    now.incarnation() == then.incarnation() && now.first() == then.first()
}

/// Returns the compactions of a conversation, and the reasons why others cannot be read.
async fn compactions(sources: &Sources, listed: &Listed) -> Result<(Vec<(Profile, Cuts)>, Vec<String>), StoreError> {
    let mut found = Vec::new();
    let mut unread = Vec::new();
    let smallest = LoadLimit::new(1, 1).unwrap_or_default();
    for profile in &sources.options.profiles {
        let load = Load::new().profile(profile.clone()).limit(smallest);
        let window = match sources.store.load(&listed.id, load).await {
            Ok(Loaded::Window(window)) => window,
            // If an exchange is damaged, the pages of the log say so.
            Ok(_) | Err(StoreError::Corrupt { .. }) => continue,
            Err(error @ StoreError::CorruptCompaction { .. }) => {
                unread.push(error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };

        if window.revision.incarnation() != listed.revision.incarnation() {
            continue;
        }
        let Some(compaction) = &window.compaction else { continue };
        match read_cuts(compaction, &listed.id, profile) {
            Ok(cuts) => found.push((profile.clone(), cuts)),
            Err(error) => unread.push(error.to_string()),
        }
    }
    Ok((found, unread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_conversation_counts_once_however_many_are_named() {
        let mut report = ExportReport::default();
        for number in 0..MAX_NAMED + 100 {
            let id = ConversationId::new([number.to_string()]).unwrap();
            for _ in 0..3 {
                report.missing(&id, "reason".to_owned());
            }
        }
        assert_eq!((report.not_whole, report.named.len()), (MAX_NAMED as u64 + 100, MAX_NAMED));
    }
}
