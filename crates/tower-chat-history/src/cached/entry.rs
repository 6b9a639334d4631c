//! What is kept of one conversation, and what becomes of it. No locks and no waiting.

use std::sync::Arc;

use tower_chat_history_core::{
    Appended, Compact, CompactOutcome, Compaction, Exchange, Load, LoadLimit, Profile, Recorded, Scan, Window,
    WindowScan,
};

/// How many windows of one conversation are kept: services with more profiles and limits than that are rare.
const MOST: usize = 4;

/// What a message takes in memory beside its JSON, and an exchange beside its messages, in bytes.
const FRAME: usize = 256;

/// The windows of one conversation. They are never changed, so whoever holds them has a whole state of the log.
#[derive(Debug)]
pub(super) struct Entry {
    /// The one that was asked for last is the last one.
    windows: Vec<Kept>,
    bytes: u64,
}

/// What a store would answer to a load of that profile within that limit, if the window's revision is still the log's.
#[derive(Clone, Debug)]
struct Kept {
    profile: Profile,
    limit: LoadLimit,
    window: Window,
    size: Size,
}

/// How many messages a window has, and how many bytes of their JSON: summed up once, and not at each append.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    messages: usize,
    bytes: usize,
}

impl Size {
    fn of<'a>(exchanges: impl IntoIterator<Item = &'a Recorded>) -> Self {
        exchanges.into_iter().fold(Self::default(), |size, recorded| size.with(&recorded.exchange))
    }

    fn with(self, exchange: &Exchange) -> Self {
        Self { messages: self.messages + exchange.messages.len(), bytes: self.bytes + exchange.bytes() }
    }

    const fn exceeds(self, limit: LoadLimit) -> bool {
        self.messages > limit.messages() || self.bytes > limit.bytes()
    }
}

impl Entry {
    fn new(windows: Vec<Kept>) -> Self {
        let bytes = windows.iter().map(Kept::bytes).sum::<usize>() as u64;
        Self { windows, bytes }
    }

    /// What it takes in memory, in bytes: an estimate.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The window that answers this, if it is still the newest.
    pub(super) fn window(&self, load: &Load) -> Option<&Window> {
        self.windows.iter().find(|kept| kept.answers(load)).map(|kept| &kept.window)
    }

    /// The conversation after that window was loaded.
    pub(super) fn loaded(before: Option<&Self>, load: &Load, window: Window) -> Self {
        let others = before.into_iter().flat_map(|entry| &entry.windows);
        let mut windows: Vec<_> = others.filter(|kept| !kept.answers(load)).cloned().collect();
        windows.drain(..windows.len().saturating_sub(MOST - 1));
        let size = Size::of(&window.exchanges);
        windows.push(Kept { profile: load.profile.clone(), limit: load.limit, window, size });
        Self::new(windows)
    }

    /// The conversation after that exchange was stored; `None` if no window is known to be the newest any more.
    pub(super) fn appended(
        &self,
        exchange: Arc<Exchange>,
        compact: Option<&Compact>,
        appended: &Appended,
    ) -> Option<Self> {
        exchange.share_counts();
        let recorded = Recorded::new(appended.seq, exchange);
        let mut windows: Vec<_> = self.windows.iter().filter(|kept| kept.precedes(appended)).cloned().collect();
        for kept in &mut windows {
            kept.window.revision = appended.revision;
            kept.window.exchanges.push(recorded.clone());
            kept.size = kept.size.with(&recorded.exchange);
        }
        if let (Some(compact), Some(outcome)) = (compact, &appended.compaction) {
            compacted(&mut windows, compact, outcome);
        }
        windows.iter_mut().for_each(Kept::limit);
        (!windows.is_empty()).then(|| Self::new(windows))
    }

    /// The conversation after a compaction was stored.
    pub(super) fn compacted(&self, compact: &Compact, outcome: &CompactOutcome) -> Self {
        let mut windows = self.windows.clone();
        compacted(&mut windows, compact, outcome);
        Self::new(windows)
    }
}

impl Kept {
    fn answers(&self, load: &Load) -> bool {
        self.profile == load.profile && self.limit == load.limit
    }

    /// Whether the log was as this window says until that append.
    fn precedes(&self, appended: &Appended) -> bool {
        let (before, after) = (self.window.revision, appended.revision);
        let last = self.window.exchanges.last();
        before.incarnation() == after.incarnation()
            && before.first() == after.first()
            && last.is_some_and(|last| last.seq.next() == appended.seq)
    }

    /// What it takes in memory.
    fn bytes(&self) -> usize {
        let compaction = self.window.compaction.as_ref();
        let summary = compaction.and_then(|compaction| compaction.cut.summary.as_ref());
        let frames = self.size.messages + self.window.exchanges.len() + 1;
        self.size.bytes + FRAME * frames + summary.map_or(0, |summary| summary.text.len())
    }

    /// Leaves out what the limit would not let through any more.
    fn limit(&mut self) {
        if !self.size.exceeds(self.limit) {
            return;
        }
        let (window, mut scan) = (&mut self.window, WindowScan::new(self.limit));
        for Recorded { seq, exchange, .. } in window.exchanges.iter().rev() {
            if scan.offer(*seq, exchange.opens_turn(), exchange.messages.len(), exchange.bytes()) == Scan::Stop {
                break;
            }
        }
        if let Some(start) = scan.start().filter(|_| scan.is_truncated()) {
            window.exchanges.retain(|recorded| recorded.seq >= start);
            window.truncated = true;
            self.size = Size::of(&window.exchanges);
        }
    }
}

/// Applies a compaction to the windows of its profile. (Where another one was met, they are out of date and stay so.)
fn compacted(windows: &mut [Kept], compact: &Compact, outcome: &CompactOutcome) {
    let CompactOutcome::Stored(version) = outcome else { return };
    for Kept { window, size, .. } in windows.iter_mut().filter(|kept| kept.profile == compact.profile) {
        let start = compact.cut.window_start;
        window.truncated &= window.exchanges.first().is_some_and(|first| start < first.seq);
        window.exchanges.retain(|recorded| recorded.seq >= start);
        window.compaction = Some(Compaction::new(*version, compact.cut.clone()));
        *size = Size::of(&window.exchanges);
    }
}
