//! The window as it would be sent, message by message, with what is needed to leave some of it out.

use tower_chat_history_core::{Message, Recorded, Seq};

use crate::view::View;

/// A message of the [view](crate::view), and where it belongs.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) message: Message,
    /// The exchange it stands in.
    pub(super) seq: Seq,
    /// Its round, if it belongs to one: calls, results, and the results that stand in for those that never came.
    pub(super) round: Option<Round>,
}

/// Where a round stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// The exchange in which its calls stand.
    pub(super) asked: Seq,
    /// The exchange of the message after its last result; of a round at the end of the log, the log's next exchange.
    ///
    /// A cut leaves a round out by this position. So no stored cut leaves out a round at the end of the log, which the
    /// next exchange may answer or take up.
    pub(super) followed: Seq,
}

impl Item {
    /// Whether it stays in a window that starts there, and of which rounds before the other position are left out.
    pub(super) fn is_behind(&self, window: Seq, rounds: Seq) -> bool {
        self.seq >= window && self.round.is_none_or(|round| round.asked >= window && round.followed >= rounds)
    }
}

/// The view of a window. Leaving out whole rounds, or everything before a turn's opening, leaves the view of what stays: the
/// fold looks no further back than to the newest round.
#[derive(Debug)]
pub(super) struct Folded {
    view: View,
    /// The exchange of each message, and its round.
    places: Vec<(Seq, Option<usize>)>,
    rounds: Vec<Round>,
    /// The position after the last exchange.
    next: Seq,
}

impl Folded {
    /// The view of these exchanges; `next` is the position of the log's next one, if there are none.
    pub(super) fn of<'a>(exchanges: impl IntoIterator<Item = &'a Recorded>, next: Seq) -> Self {
        let mut folded = Self { view: View::default(), places: Vec::new(), rounds: Vec::new(), next };
        for recorded in exchanges {
            folded.push(recorded);
        }
        folded
    }

    fn push(&mut self, recorded: &Recorded) {
        let Self { view, places, rounds, .. } = self;
        let seq = recorded.seq;
        view.push_exchange_with(&recorded.exchange, |view, before| place(view, before, seq, places, rounds));
        // If nothing was pushed, something may have given way all the same.
        place(&self.view, self.view.messages().len(), seq, &mut self.places, &mut self.rounds);
        self.next = seq.next();
    }

    /// Makes way for the input of a call, if it repeats what the log ends with.
    pub(super) fn make_way_for(&mut self, input: &[Message]) {
        self.view.make_way_for(input);
        let len = self.view.messages().len();
        place(&self.view, len, self.next, &mut self.places, &mut self.rounds);
    }

    pub(super) const fn view(&self) -> &View {
        &self.view
    }

    /// The exchange of the newest calls.
    pub(super) fn asked_by(&self) -> Option<Seq> {
        self.rounds.last().map(|round| round.asked)
    }

    /// The message of an input that has the very calls which are open.
    pub(super) fn open_calls_in(&self, input: &[Message]) -> Option<usize> {
        let asks = |message: &&Message| !message.tool_calls().is_empty();
        let open = self.view.messages().iter().rfind(asks).filter(|_| !self.view.open().is_empty())?;
        input.iter().position(|message| asks(&message) && message.tool_calls() == open.tool_calls())
    }

    /// Gives the open calls their constant result.
    pub(super) fn close(&mut self) {
        self.view.close();
        let place = (self.asked_by().unwrap_or_default(), self.rounds.len().checked_sub(1));
        self.places.resize(self.view.messages().len(), place);
    }

    pub(super) fn into_items(self) -> Vec<Item> {
        let Self { view, places, rounds, next } = self;
        let round = |at: usize| rounds.get(at).map(|round| Round { followed: round.followed.min(next), ..*round });
        let items = view.into_messages().into_iter().zip(places);
        items.map(|(message, (seq, at))| Item { message, seq, round: at.and_then(round) }).collect()
    }
}

/// Nothing follows the round yet.
const NOTHING: Seq = Seq::new(u64::MAX);

/// Notes where the messages from `before` on belong, which stand in the exchange at `seq`.
fn place(view: &View, before: usize, seq: Seq, places: &mut Vec<(Seq, Option<usize>)>, rounds: &mut Vec<Round>) {
    if places.len() > before {
        places.truncate(before);
        let newest = places.last().and_then(|(_, round)| *round);
        rounds.truncate(newest.map_or(0, |newest| newest + 1));
        if let Some(round) = rounds.last_mut() {
            round.followed = NOTHING;
        }
    }
    // Results that stand in for others come before the message that closes their calls.
    for message in &view.messages()[before..] {
        let asks = !message.tool_calls().is_empty();
        if !message.is_tool_result()
            && let Some(round) = rounds.last_mut()
        {
            round.followed = round.followed.min(seq);
        }
        if asks {
            rounds.push(Round { asked: seq, followed: NOTHING });
        }
        let round = rounds.len().checked_sub(1).filter(|_| asks || message.is_tool_result());
        places.push((seq, round));
    }
}
