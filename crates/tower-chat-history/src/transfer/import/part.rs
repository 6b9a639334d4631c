//! The lines of one conversation.

use tower_chat_history_core::{
    CompactOutcome, CompactionVersion, ConversationId, Cuts, Digest, Exchange, LabelsOutcome, LabelsVersion, List,
    Load, LoadLimit, Loaded, Profile, Revision, Seq, StoreError,
};

use super::{
    log::{Log, Put, may_concern_one_conversation},
    report::{ImportReport, Reason},
};
use crate::transfer::line::{ConversationLine, EndLine, Line, read_cuts};

/// The conversation whose lines are imported.
#[derive(Debug)]
pub(super) struct Part {
    first: ConversationLine,
    /// `None` if the rest of the conversation is skipped.
    log: Option<Log>,
    next: Seq,
    /// The digest of the lines. `None` if a line was damaged.
    digest: Option<Digest>,
    counts: EndLine,
}

impl Part {
    /// Begins a conversation. If the store fails for it, its lines are skipped.
    pub(super) async fn begin(
        store: &dyn List,
        first: ConversationLine,
        digest: Digest,
        at: u64,
        report: &mut ImportReport,
    ) -> Result<Self, StoreError> {
        let log = match Log::open(store, first.id.clone(), first.first).await {
            Ok(log) => Some(log),
            Err(source) if may_concern_one_conversation(&source) => {
                report.skip(at, Some(&first.id), Reason::Store { seq: first.first, source });
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self { log, ..Self::refused(first, digest) })
    }

    /// Creates a part that is skipped. The digest is that of its first line.
    pub(super) fn refused(first: ConversationLine, digest: Digest) -> Self {
        let counts = EndLine { exchanges: 0, compactions: 0, cut: None, digest: None };
        Self { next: first.first, digest: Some(digest), first, log: None, counts }
    }

    pub(super) const fn id(&self) -> &ConversationId {
        &self.first.id
    }

    /// Returns the digest of the lines so far, with which that of the next line continues.
    pub(super) fn digest(&self) -> Digest {
        self.digest.unwrap_or_default()
    }

    /// Skips the rest of the conversation.
    pub(super) fn refuse(&mut self, at: u64, reason: Reason, report: &mut ImportReport) {
        self.digest = None;
        self.skip_rest(at, reason, report);
    }

    fn skip_rest(&mut self, at: u64, reason: Reason, report: &mut ImportReport) {
        if self.log.take().is_some() {
            report.skip(at, Some(&self.first.id), reason);
        }
    }

    /// Imports a line. If the store fails for this conversation, the rest of it is skipped.
    pub(super) async fn line(
        &mut self,
        store: &dyn List,
        line: Line,
        at: u64,
        report: &mut ImportReport,
    ) -> Result<(), StoreError> {
        match self.import(store, line, at, report).await {
            Err(source) if may_concern_one_conversation(&source) => {
                self.skip_rest(at, Reason::Store { seq: self.next, source }, report);
                Ok(())
            }
            result => result,
        }
    }

    async fn import(
        &mut self,
        store: &dyn List,
        line: Line,
        at: u64,
        report: &mut ImportReport,
    ) -> Result<(), StoreError> {
        // After a damaged line, the chain is broken.
        if self.digest.is_some() {
            self.digest = line.digest().or(self.digest);
        }

        match line {
            Line::Exchange { seq, exchange, .. } => self.exchange(store, seq, *exchange, at, report).await,
            Line::Compaction { profile, cuts, .. } => {
                self.counts.compactions += 1;
                self.compaction(store, profile, cuts, at, report).await
            }
            Line::End(end) => self.end(store, &end, at, report).await,
            Line::Unknown => Ok(()),
            Line::Header | Line::Conversation { .. } | Line::Done { .. } => {
                self.refuse(at, Reason::OutOfPlace, report);
                Ok(())
            }
        }
    }

    async fn exchange(
        &mut self,
        store: &dyn List,
        seq: Seq,
        exchange: Exchange,
        at: u64,
        report: &mut ImportReport,
    ) -> Result<(), StoreError> {
        self.counts.exchanges += 1;
        let expected = std::mem::replace(&mut self.next, seq.next());
        let Some(log) = &mut self.log else { return Ok(()) };
        if seq != expected {
            self.refuse(at, Reason::Missing, report);
            return Ok(());
        }

        match log.put(store, exchange).await? {
            Put::Stored => report.stored += 1,
            Put::Present => report.present += 1,
            Put::Pruned => report.pruned += 1,
            Put::Refused(reason) => self.skip_rest(at, reason, report),
        }
        Ok(())
    }

    /// Stores a compaction. The file is not trusted, so the rules for cuts are checked.
    async fn compaction(
        &mut self,
        store: &dyn List,
        profile: Profile,
        cuts: Cuts,
        at: u64,
        report: &mut ImportReport,
    ) -> Result<(), StoreError> {
        let Some(revision) = self.log.as_ref().and_then(Log::revision) else { return Ok(()) };
        let id = &self.first.id;
        let load = Load::new().profile(profile.clone()).limit(LoadLimit::new(1, 1).unwrap_or_default());
        let stored = match store.load(id, load).await? {
            Loaded::Window(window) => window.compaction,
            Loaded::Absent(_) | Loaded::Unchanged | Loaded::Added(_) | Loaded::AlreadyRecorded(_) => None,
        };
        let replaces = stored.as_ref().map_or(CompactionVersion::NONE, |stored| stored.version);
        let stored = stored.map(|stored| read_cuts(&stored, id, &profile)).transpose()?;
        if stored.as_ref().is_some_and(|stored| stored.cut == cuts.cut) {
            return Ok(());
        }

        let opens_turn = opens_turn(store, id, revision, cuts.cut.window_start).await?;
        let checked = cuts.cut.check(stored.as_ref().map(|stored| &stored.cut), revision.next().get(), |_| opens_turn);
        if checked.is_err() {
            report.skip(at, Some(id), Reason::Compaction(profile));
            return Ok(());
        }

        let compact = cuts.compact(profile.clone(), replaces).map_err(StoreError::backend)?;
        match store.compact(id, revision.incarnation(), compact).await {
            Ok(CompactOutcome::Stored(_)) => report.compactions += 1,
            Ok(CompactOutcome::Kept(_)) | Err(StoreError::Gone) => {
                report.skip(at, Some(id), Reason::Compaction(profile));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn end(
        &mut self,
        store: &dyn List,
        end: &EndLine,
        at: u64,
        report: &mut ImportReport,
    ) -> Result<(), StoreError> {
        if self.log.is_some() {
            self.labels(store, at, report).await?;
        }
        if let Some(before) = self.digest {
            let is_equal = end.exchanges == self.counts.exchanges
                && end.compactions == self.counts.compactions
                && end.digest.is_none_or(|digest| digest == before);
            if !is_equal {
                report.skip(at, Some(&self.first.id), Reason::Missing);
            }
        }
        if let Some(cut) = end.cut {
            report.skip(at, Some(&self.first.id), Reason::Cut(cut));
        }
        Ok(())
    }

    /// Stores the labels, if the conversation never had other ones.
    async fn labels(&self, store: &dyn List, at: u64, report: &mut ImportReport) -> Result<(), StoreError> {
        let labels = &self.first.labels;
        let Some(revision) = self.log.as_ref().and_then(Log::revision).filter(|_| !labels.is_empty()) else {
            return Ok(());
        };
        let incarnation = revision.incarnation();
        match store.set_labels(&self.first.id, incarnation, LabelsVersion::NONE, labels.clone()).await {
            Ok(LabelsOutcome::Stored(_)) => report.labels += 1,
            Ok(LabelsOutcome::Kept(stored, _)) if stored == *labels => {}
            Ok(LabelsOutcome::Kept(..)) => report.skip(at, Some(&self.first.id), Reason::Labels),
            Err(StoreError::Gone) => report.skip(at, Some(&self.first.id), Reason::Changed),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns `true` if a window may start at this position of a log: the exchange there opens a turn, or was pruned.
async fn opens_turn(store: &dyn List, id: &ConversationId, log: Revision, seq: Seq) -> Result<bool, StoreError> {
    if seq < log.first() {
        return Ok(true);
    }
    let page = store.read(id, seq, 1).await?;
    Ok(page.exchanges.first().is_some_and(|recorded| recorded.seq == seq && recorded.exchange.opens_turn()))
}
