//! What is kept of one conversation, and what becomes of it. No locks and no waiting.

use std::sync::Arc;

use tower_chat_history_core::{
    Appended, Compact, CompactOutcome, Compaction, ConversationId, Exchange, Incarnation, Load, LoadLimit, Profile,
    Recorded, Seq, Window,
    backend::{Scan, WindowScan},
};

use super::size;

/// How many windows of one conversation are kept: services with more profiles and limits than that are rare.
const MOST: usize = 4;

/// The windows of one conversation. They are never changed, so whoever holds them has a whole state of the log.
#[derive(Debug)]
pub(super) struct Entry {
    /// The one that was brought last is the last one. A list that could grow would have room for four from the first
    /// one on.
    windows: Box<[Kept]>,
}

/// What a store would answer to a load of that profile within that limit, if the window is still the log's end.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    profile: Profile,
    limit: LoadLimit,
    window: Window,
    size: Size,
}

impl Entry {
    /// The memory that it takes under that id, in bytes: an estimate, with all that it takes before the first message.
    pub(super) fn bytes(&self, id: &ConversationId) -> u64 {
        (size::of_a_conversation(id) + size::of_windows(&self.windows)) as u64
    }

    /// The window that answers this, if it is still the newest.
    pub(super) fn window(&self, load: &Load) -> Option<&Window> {
        self.windows.iter().find(|kept| kept.answers(load)).map(|kept| &kept.window)
    }

    /// The conversation after that window was loaded, in so much memory: older windows make room for it.
    pub(super) fn loaded(
        id: &ConversationId,
        before: Option<&Self>,
        load: &Load,
        mut window: Window,
        most_bytes: u64,
    ) -> Self {
        window.exchanges.shrink_to_fit();
        // What is kept of a past life is of no more use, and was to be deleted.
        let of_this_life = |kept: &&Kept| kept.window.revision.incarnation() == window.revision.incarnation();
        let others = before.into_iter().flat_map(|entry| &entry.windows).filter(of_this_life);
        let mut windows: Vec<_> = others.filter(|kept| !kept.answers(load)).cloned().collect();
        let size = Size::of(&window.exchanges);
        windows.push(Kept { profile: load.profile.clone(), limit: load.limit, window, size });
        let fixed = size::of_a_conversation(id);
        let fits = |windows: &[Kept]| (fixed + size::of_windows(windows)) as u64 <= most_bytes;
        while windows.len() > MOST || (windows.len() > 1 && !fits(&windows)) {
            windows.remove(0);
        }
        Self { windows: windows.into() }
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
        let windows: Box<[_]> =
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

    /// The memory that it takes beside its place in the list of windows, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let compaction = self.window.compaction.as_ref().map_or(0, size::beside_a_compaction);
        let list = size::of_a_list::<Recorded>(self.window.exchanges.capacity());
        size::of_shared_text(self.profile.as_str()) + compaction + list + self.size.memory
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
        // One place more, and not twice as many.
        kept.window.exchanges.reserve_exact(1);
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
        window.compaction = Some(Compaction::new(*version, compact.cut.clone()));
        self.begin_at(start);
        true
    }

    /// Leaves out what is before that exchange, and gives its places back.
    fn begin_at(&mut self, start: Seq) {
        let exchanges = &mut self.window.exchanges;
        exchanges.retain(|recorded| recorded.seq >= start);
        exchanges.shrink_to_fit();
        self.size = Size::of(exchanges.iter());
    }

    /// Leaves out what the limit would not let through any more.
    fn cut_to_limit(&mut self) {
        if !self.size.exceeds(self.limit) {
            return;
        }
        let mut scan = WindowScan::new(self.limit);
        for Recorded { seq, exchange, .. } in self.window.exchanges.iter().rev() {
            if scan.offer(*seq, exchange.opens_turn(), exchange.messages.len(), exchange.bytes()) == Scan::Stop {
                break;
            }
        }
        if let Some(start) = scan.start().filter(|_| scan.is_truncated()) {
            self.window.truncated = true;
            self.begin_at(start);
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
    /// The memory that they take beside their places in the window's list, in bytes.
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
            memory: self.memory + exchange.memory(),
        }
    }

    const fn exceeds(self, limit: LoadLimit) -> bool {
        self.messages > limit.messages() || self.bytes > limit.bytes()
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{CompactionVersion, Cut, ExchangeId, Message, Revision};

    use super::*;

    fn exchange(text: &str) -> Arc<Exchange> {
        Arc::new(Exchange::new(ExchangeId::new(text).unwrap(), [Message::user(text)]))
    }

    fn id() -> ConversationId {
        ConversationId::new(["a"]).unwrap()
    }

    /// A window of these exchanges, and the append of the last one.
    fn loaded(texts: &[&str]) -> (Entry, Appended) {
        let recorded = texts.iter().zip(0..).map(|(text, seq)| Recorded::new(Seq::new(seq), exchange(text)));
        let exchanges: Vec<_> = recorded.collect();
        let revision = Revision::new(Incarnation::from_bytes([7; 16]), texts.len() as u64);
        let appended = Appended::stored(revision, exchanges[texts.len() - 1].seq, None);
        let window = Window::new(revision, None, exchanges, false);
        (Entry::loaded(&id(), None, &Load::new(), window, u64::MAX), appended)
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
        let entry = Entry::loaded(&id(), None, &load, window, u64::MAX);
        let entry = entry.appended(Arc::clone(&third.exchange), None, &appended).unwrap();
        let kept = entry.window(&load).unwrap().clone();
        assert_eq!((kept.exchanges, kept.truncated), (vec![second, third], true));
    }

    #[test]
    fn no_list_has_more_places_than_exchanges() {
        let texts: Vec<String> = (0..100).map(|n| format!("e{n}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (entry, _) = loaded(&texts);
        let revision = Revision::new(Incarnation::from_bytes([7; 16]), 101);
        let appended = Appended::stored(revision, Seq::new(100), None);
        let grown = entry.appended(exchange("e100"), None, &appended).unwrap();
        let cut = Cut::window_from(Seq::new(99));
        let compact = Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut };
        let stored = CompactOutcome::Stored(CompactionVersion::new(1));
        let cut = grown.compacted(revision.incarnation(), &compact, &stored).unwrap();
        for (entry, len) in [(entry, 100), (grown, 101), (cut, 2)] {
            let exchanges = &entry.windows[0].window.exchanges;
            assert_eq!((exchanges.len(), exchanges.capacity()), (len, len));
        }
    }
}
