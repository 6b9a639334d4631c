//! The part of an export that has one conversation.

use std::collections::VecDeque;

use tower_chat_history_core::{
    Cuts, Digest, Listed, Load, LoadLimit, Loaded, Page, Profile, Revision, Seq, StoreError,
};

use super::{options::Sources, report::ExportReport};
use crate::transfer::{
    cuts,
    line::{ConversationLine, Cut, EndLine, write},
};

/// The number of exchanges that are read per call of the store.
const PAGE: usize = 64;

/// The number of attempts to read the beginning of a log that changes.
const ATTEMPTS: usize = 5;

/// The conversation that is exported.
#[derive(Debug)]
pub(super) struct Part {
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
    pub(super) async fn begin(
        sources: &Sources,
        mut listed: Listed,
        ready: &mut VecDeque<String>,
        report: &mut ExportReport,
    ) -> Result<Option<Self>, StoreError> {
        for _ in 0..ATTEMPTS {
            let (compactions, unread) = compactions(sources, &listed).await?;
            let page = match sources.store.read(&listed.id, listed.revision.first(), PAGE).await {
                // The page is read again, exchange by exchange.
                Err(StoreError::Corrupt { .. }) => None,
                page => Some(page?),
            };
            let first = page.as_ref().and_then(|page| page.revision);
            if page.is_none() || first.is_some_and(|first| has_same_beginning(first, listed.revision)) {
                unread.into_iter().for_each(|reason| report.missing(&listed.id, reason));
                return Ok(Some(Self::new(listed, compactions, page, ready, report)));
            }
            // The log changed since it was listed.
            match sources.store.describe(&listed.id).await? {
                Some(now) => listed = now,
                None => return Ok(None),
            }
        }
        let mut part = Self::new(listed, Vec::new(), None, ready, report);
        part.finish(Some((Cut::Changed, String::new())), ready, report);
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
    pub(super) async fn step(
        &mut self,
        sources: &Sources,
        ready: &mut VecDeque<String>,
        report: &mut ExportReport,
    ) -> Result<bool, StoreError> {
        let page = match self.page.take() {
            Some(page) => page,
            None => match self.read(sources).await {
                Err(StoreError::Corrupt { seq, .. }) => {
                    self.finish(Some((Cut::Damaged, format!(" (position {seq})"))), ready, report);
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
        let is_read = self.next >= end;
        if is_read {
            self.write_compactions(ready, report)?;
            self.finish(None, ready, report);
        } else if ready.is_empty() {
            // The rest of the log is gone.
            self.finish(Some((Cut::Changed, String::new())), ready, report);
            return Ok(true);
        }
        Ok(is_read)
    }

    /// Reads the next page. If it has a damaged exchange, reads one exchange.
    async fn read(&self, sources: &Sources) -> Result<Page, StoreError> {
        let store = &sources.store;
        match store.read(&self.listed.id, self.next, PAGE).await {
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

    fn finish(&mut self, cut: Option<(Cut, String)>, ready: &mut VecDeque<String>, report: &mut ExportReport) {
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
    let (mut found, mut unread) = (Vec::new(), Vec::new());
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
        match cuts::read(compaction, &listed.id, profile) {
            Ok(cuts) => found.push((profile.clone(), cuts)),
            Err(error) => unread.push(error.to_string()),
        }
    }
    Ok((found, unread))
}
