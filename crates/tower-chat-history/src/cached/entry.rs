//! What is kept of one conversation, and what becomes of it. No locks and no waiting.

use std::sync::Arc;

use tower_chat_history_core::{
    Appended, Compact, CompactOutcome, Compaction, Exchange, Incarnation, Load, LoadLimit, Profile, Recorded, Scan,
    Window, WindowScan,
};

/// How many windows of one conversation are kept: services with more profiles and limits than that are rare.
const MOST: usize = 4;

/// What an exchange takes in a window's list, in bytes. A list is at least half full.
const PLACE: usize = 2 * size_of::<Recorded>();

/// The windows of one conversation. They are never changed, so whoever holds them has a whole state of the log.
#[derive(Debug)]
pub(super) struct Entry {
    /// The one that was brought last is the last one.
    windows: Vec<Kept>,
}

/// What a store would answer to a load of that profile within that limit, if the window is still the log's end.
#[derive(Clone, Debug)]
struct Kept {
    profile: Profile,
    limit: LoadLimit,
    window: Window,
    size: Size,
}

impl Entry {
    /// What it takes in memory, in bytes: an estimate.
    pub(super) fn bytes(&self) -> u64 {
        self.windows.iter().map(Kept::bytes).sum::<usize>() as u64
    }

    /// The window that answers this, if it is still the newest.
    pub(super) fn window(&self, load: &Load) -> Option<&Window> {
        self.windows.iter().find(|kept| kept.answers(load)).map(|kept| &kept.window)
    }

    /// The conversation after that window was loaded, in so much memory: older windows make room for it.
    pub(super) fn loaded(before: Option<&Self>, load: &Load, window: Window, most_bytes: u64) -> Self {
        // What is kept of a past life is of no more use, and was to be deleted.
        let of_this_life = |kept: &&Kept| kept.window.revision.incarnation() == window.revision.incarnation();
        let others = before.into_iter().flat_map(|entry| &entry.windows).filter(of_this_life);
        let mut windows: Vec<_> = others.filter(|kept| !kept.answers(load)).cloned().collect();
        let size = Size::of(&window.exchanges);
        windows.push(Kept { profile: load.profile.clone(), limit: load.limit, window, size });
        let mut entry = Self { windows };
        while entry.windows.len() > MOST || (entry.windows.len() > 1 && entry.bytes() > most_bytes) {
            entry.windows.remove(0);
        }
        entry
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
        let compacted = compact.zip(appended.compaction.as_ref());
        let windows: Vec<_> =
            self.windows.iter().filter_map(|kept| kept.appended(&recorded, compacted, appended)).collect();
        (!windows.is_empty()).then_some(Self { windows })
    }

    /// The conversation after a compaction was stored in that incarnation; `None` if nothing changes.
    pub(super) fn compacted(
        &self,
        incarnation: Incarnation,
        compact: &Compact,
        outcome: &CompactOutcome,
    ) -> Option<Self> {
        let (mut windows, mut changed) = (self.windows.clone(), false);
        for kept in windows.iter_mut().filter(|kept| kept.window.revision.incarnation() == incarnation) {
            changed |= kept.compact(compact, outcome);
        }
        changed.then_some(Self { windows })
    }
}

impl Kept {
    fn answers(&self, load: &Load) -> bool {
        self.profile == load.profile && self.limit == load.limit
    }

    /// What it takes in memory.
    fn bytes(&self) -> usize {
        let compaction = self.window.compaction.as_ref().map_or(0, Compaction::memory);
        size_of::<Self>() + self.profile.as_str().len() + compaction + self.size.memory
    }

    /// The window after that append; `None` if there is more that it does not know.
    fn appended(
        &self,
        recorded: &Recorded,
        compacted: Option<(&Compact, &CompactOutcome)>,
        appended: &Appended,
    ) -> Option<Self> {
        let (before, after) = (self.window.revision, appended.revision);
        let next = self.window.exchanges.last()?.seq.next();
        if before.incarnation() != after.incarnation() {
            return None;
        }
        if next > appended.seq {
            // It was loaded after the append, which took longer to answer; or the log lost its end, and this took its place.
            let is_in = |known: &Recorded| known.seq == appended.seq && known.exchange.id == recorded.exchange.id;
            return self.window.exchanges.iter().any(is_in).then(|| self.clone());
        }
        if next < appended.seq || before.first() != after.first() {
            return None;
        }
        let mut kept = self.clone();
        kept.window.revision = after;
        kept.window.exchanges.push(recorded.clone());
        kept.size = kept.size.with(&recorded.exchange);
        if let Some((compact, outcome)) = compacted {
            kept.compact(compact, outcome);
        }
        kept.cut_to_limit();
        Some(kept)
    }

    /// Applies a compaction, if it is of this profile and was stored: whether it was. (Where another one was met, the window is out
    /// of date and stays so.)
    fn compact(&mut self, compact: &Compact, outcome: &CompactOutcome) -> bool {
        let CompactOutcome::Stored(version) = outcome else { return false };
        if compact.profile != self.profile {
            return false;
        }
        let (window, start) = (&mut self.window, compact.cut.window_start);
        window.truncated &= window.exchanges.first().is_some_and(|first| start < first.seq);
        window.exchanges.retain(|recorded| recorded.seq >= start);
        window.compaction = Some(Compaction::new(*version, compact.cut.clone()));
        self.size = Size::of(&window.exchanges);
        true
    }

    /// Leaves out what the limit would not let through any more.
    fn cut_to_limit(&mut self) {
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

/// How large a window is: summed up once, and not at each append.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// As a load limit [counts](Exchange::counted_messages) them.
    messages: usize,
    /// Of the messages' JSON.
    bytes: usize,
    /// What they take in memory, in bytes.
    memory: usize,
}

impl Size {
    fn of<'a>(exchanges: impl IntoIterator<Item = &'a Recorded>) -> Self {
        exchanges.into_iter().fold(Self::default(), |size, recorded| size.with(&recorded.exchange))
    }

    fn with(self, exchange: &Exchange) -> Self {
        Self {
            messages: self.messages + exchange.counted_messages(),
            bytes: self.bytes + exchange.bytes(),
            memory: self.memory + exchange.memory() + PLACE,
        }
    }

    const fn exceeds(self, limit: LoadLimit) -> bool {
        self.messages > limit.messages() || self.bytes > limit.bytes()
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{ExchangeId, Message, Revision, Seq};

    use super::*;

    fn exchange(text: &str) -> Arc<Exchange> {
        Arc::new(Exchange::new(ExchangeId::new(text).unwrap(), [Message::user(text)]))
    }

    /// A window of these exchanges, and the append of the last one.
    fn loaded(texts: &[&str]) -> (Entry, Appended) {
        let recorded = texts.iter().zip(0..).map(|(text, seq)| Recorded::new(Seq::new(seq), exchange(text)));
        let exchanges: Vec<_> = recorded.collect();
        let revision = Revision::new(Incarnation::from_bytes([7; 16]), texts.len() as u64);
        let appended = Appended::stored(revision, exchanges[texts.len() - 1].seq, None);
        (Entry::loaded(None, &Load::new(), Window::new(revision, None, exchanges, false), u64::MAX), appended)
    }

    #[test]
    fn an_append_that_answers_late_is_in_the_window_already() {
        let (entry, appended) = loaded(&["one", "two"]);
        let kept = entry.appended(exchange("two"), None, &appended).unwrap();
        assert_eq!(kept.window(&Load::new()), entry.window(&Load::new()));
    }

    #[test]
    fn a_window_whose_end_was_lost_is_not_continued() {
        let (entry, appended) = loaded(&["one", "lost"]);
        assert!(entry.appended(exchange("two"), None, &appended).is_none());
    }

    #[test]
    fn exchanges_without_messages_leave_a_kept_window_as_they_leave_a_loaded_one() {
        let empty = |seq: u64| {
            let id = ExchangeId::new(format!("e{seq}")).unwrap();
            Recorded::new(Seq::new(seq), Exchange::new(id, []))
        };
        let incarnation = Incarnation::from_bytes([7; 16]);
        let load = Load::new().limit(LoadLimit::new(2, 1 << 20).unwrap());
        let (second, third) = (empty(1), empty(2));
        let window = Window::new(Revision::new(incarnation, 2), None, vec![empty(0), second.clone()], false);
        let appended = Appended::stored(Revision::new(incarnation, 3), third.seq, None);
        let kept = Entry::loaded(None, &load, window, u64::MAX).appended(Arc::clone(&third.exchange), None, &appended);
        let kept = kept.unwrap().window(&load).unwrap().clone();
        assert_eq!((kept.exchanges, kept.truncated), (vec![second, third], true));
    }
}
