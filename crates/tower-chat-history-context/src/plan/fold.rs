//! The window as it would be sent, with the exchange and the round of each message.

use tower_chat_history_core::{Message, Recorded, Seq};

use crate::view::{Source, View};

/// A message of the [view](crate::view), with its exchange and its round.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) message: Message,
    /// The position of its exchange.
    pub(super) seq: Seq,
    /// The round that it belongs to, if it has calls or is a result. Substitutes for missing results belong to it too.
    pub(super) round: Option<Round>,
    /// True for the recalled messages of its exchange.
    pub(super) is_recalled: bool,
}

/// The positions of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// The exchange with its calls.
    pub(super) asked: Seq,
    /// The exchange of the message after its last result. For a round at the end of the log, it is the log's next
    /// exchange.
    ///
    /// A cut leaves out a round if this position is before the cut's `rounds_start`. A round at the end of the log has
    /// the position of an exchange that does not exist yet, so no stored cut leaves it out. The next exchange may still
    /// answer it, or answer it again.
    pub(super) followed: Seq,
}

impl Item {
    /// Returns `true` if the message is kept in a window that starts at `window` and leaves out the rounds that are
    /// followed by an exchange before `rounds`.
    pub(super) fn is_kept(&self, window: Seq, rounds: Seq) -> bool {
        self.seq >= window && self.round.is_none_or(|round| round.asked >= window && round.followed >= rounds)
    }
}

/// The view of a window. Whole rounds can be left out of it, and so can everything before a turn's opening: the
/// remaining messages are then the view of the remaining log, because the view depends only on the newest round.
#[derive(Debug)]
pub(super) struct Folded {
    view: View,
    /// The origin of each message.
    origins: Vec<Origin>,
    rounds: Vec<Round>,
    /// The position after the last exchange.
    next: Seq,
}

/// The exchange of a message, the index of its round, and whether it is the recalled messages of its exchange.
#[derive(Clone, Copy, Debug)]
struct Origin {
    seq: Seq,
    round: Option<usize>,
    is_recalled: bool,
}

impl Folded {
    /// Folds these exchanges, without the recalled messages of those before `recalled_from`. If there are none, `next`
    /// is the position of the log's next exchange.
    pub(super) fn of<'a>(exchanges: impl IntoIterator<Item = &'a Recorded>, next: Seq, recalled_from: Seq) -> Self {
        let mut folded = Self { view: View::default(), origins: Vec::new(), rounds: Vec::new(), next };
        for recorded in exchanges {
            folded.push(recorded, recalled_from);
        }
        folded
    }

    fn push(&mut self, Recorded { seq, exchange, .. }: &Recorded, recalled_from: Seq) {
        let Self { view, origins, rounds, .. } = self;
        let recalled = exchange.recalled.as_ref().filter(|_| *seq >= recalled_from);
        view.push_exchange_with(exchange, recalled, |view, before, source| {
            note_origins(view, before, (*seq, source), origins, rounds);
        });
        // Even if no message was pushed, an earlier exchange may have given way.
        let len = self.view.messages().len();
        note_origins(&self.view, len, (*seq, Source::Log), &mut self.origins, &mut self.rounds);
        self.next = seq.next();
    }

    /// Removes the exchange that the input of a call repeats, if the log ends with one.
    pub(super) fn make_way_for(&mut self, input: &[Message]) {
        self.view.make_way_for(input);
        let len = self.view.messages().len();
        note_origins(&self.view, len, (self.next, Source::Log), &mut self.origins, &mut self.rounds);
    }

    pub(super) const fn view(&self) -> &View {
        &self.view
    }

    /// Returns the exchange with the newest calls.
    pub(super) fn asked_by(&self) -> Option<Seq> {
        self.rounds.last().map(|round| round.asked)
    }

    /// Returns the index of the input message that repeats the open calls, if there is one.
    pub(super) fn open_calls_in(&self, input: &[Message]) -> Option<usize> {
        let asks = |message: &&Message| !message.tool_calls().is_empty();
        let open = self.view.messages().iter().rfind(asks).filter(|_| !self.view.open().is_empty())?;
        input.iter().position(|message| asks(&message) && message.tool_calls() == open.tool_calls())
    }

    /// Gives the open calls their constant result.
    pub(super) fn close(&mut self) {
        self.view.close();
        let (seq, round) = (self.asked_by().unwrap_or_default(), self.rounds.len().checked_sub(1));
        let origin = Origin { seq, round, is_recalled: false };
        self.origins.resize(self.view.messages().len(), origin);
    }

    pub(super) fn into_items(self) -> Vec<Item> {
        let Self { view, origins, rounds, next } = self;
        let round = |at: usize| rounds.get(at).map(|round| Round { followed: round.followed.min(next), ..*round });
        let items = view.into_messages().into_iter().zip(origins);
        let item = |(message, Origin { seq, round: at, is_recalled })| {
            let round = at.and_then(round);
            Item { message, seq, round, is_recalled }
        };
        items.map(item).collect()
    }
}

/// The position of a round that no message follows yet.
const NOT_FOLLOWED: Seq = Seq::new(u64::MAX);

/// Notes the origins of the messages from index `before` on, which come from the exchange at `seq`.
fn note_origins(
    view: &View,
    before: usize,
    (seq, source): (Seq, Source),
    origins: &mut Vec<Origin>,
    rounds: &mut Vec<Round>,
) {
    if origins.len() > before {
        origins.truncate(before);
        let newest = origins.last().and_then(|origin| origin.round);
        rounds.truncate(newest.map_or(0, |newest| newest + 1));
        if let Some(round) = rounds.last_mut() {
            round.followed = NOT_FOLLOWED;
        }
    }
    // Substitutes for missing results precede the message that closes their calls.
    for message in &view.messages()[before..] {
        let asks = !message.tool_calls().is_empty();
        if !message.is_tool_result()
            && let Some(round) = rounds.last_mut()
        {
            round.followed = round.followed.min(seq);
        }
        if asks {
            rounds.push(Round { asked: seq, followed: NOT_FOLLOWED });
        }
        let round = rounds.len().checked_sub(1).filter(|_| asks || message.is_tool_result());
        let is_recalled = source == Source::Recalled && !message.is_tool_result();
        origins.push(Origin { seq, round, is_recalled });
    }
}
