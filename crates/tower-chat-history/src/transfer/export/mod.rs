//! Export of conversations.

mod options;
mod part;
mod report;

use std::{collections::VecDeque, sync::Arc};

use futures_core::Stream;
use futures_util::stream;
use tower_chat_history_core::{Cursor, List, Listed, Prefix, StoreError, management::TARGET};

pub use self::{
    options::ExportOptions,
    report::{ExportReport, NotWhole},
};
use self::{options::Sources, part::Part};
use crate::transfer::line::write;

/// The number of conversations that are listed per call of the store.
const PAGE: usize = 100;

/// An export of all conversations under a prefix, line by line.
///
/// The lines have the [format](mod@crate::transfer::format) of this crate, without line breaks at their ends. The memory that it needs
/// does not depend on the number of conversations and on the lengths of their logs: it holds one page of a listing and
/// one page of a log.
///
/// # Consistency
///
/// Each conversation is exported as it was at one time: exchanges that are appended later are not in the export. If a
/// log is truncated, pruned or deleted after its first page was read, the rest of the old log is gone. Its part of the
/// export then ends early, and [says so](crate::transfer::Cut::Changed), as does the [report](Self::report). Export it again.
/// Different conversations are exported as of different times.
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
        let (ready, listed) = (VecDeque::new(), VecDeque::new());
        let (sources, report) = (Sources { store, options }, ExportReport::default());
        Self { sources, under, ready, listed, next: Next::Header, part: None, report }
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
                let page = self.sources.store.list(&self.under, after.as_ref(), PAGE).await?;
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
