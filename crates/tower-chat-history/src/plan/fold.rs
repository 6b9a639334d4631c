//! The window as it would be sent, message by message, with what is needed to leave some of it out.

use tower_chat_history_core::{Message, Recorded, Seq};

use crate::{OpenCalls, View};

/// A message of the [view](crate::view), and where it belongs.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) message: Message,
    /// The exchange it stands in.
    pub(super) seq: Seq,
    /// The exchange in which the calls of its round stand, if it belongs to one: calls, results, and the results that stand
    /// in for those that never came.
    pub(super) round: Option<Seq>,
}

impl Item {
    /// Whether it stays in a window that starts there, and of which rounds before the other position are left out.
    pub(super) fn is_behind(&self, window: Seq, rounds: Seq) -> bool {
        self.seq >= window && self.round.is_none_or(|round| round >= window.max(rounds))
    }
}

/// The view of a window. Leaving out whole rounds, or everything before a turn's opening, leaves the view of what stays: the
/// fold looks no further back than to the calls that are open.
#[derive(Debug, Default)]
pub(super) struct Folded {
    view: View,
    places: Vec<(Seq, Option<Seq>)>,
    /// The exchange of the last calls.
    pub(super) asked_by: Option<Seq>,
}

impl Folded {
    pub(super) fn of<'a>(exchanges: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut folded = Self::default();
        for recorded in exchanges {
            for message in &recorded.exchange.messages {
                folded.push(message, recorded.seq);
            }
        }
        folded
    }

    fn push(&mut self, message: &Message, seq: Seq) {
        let before = self.view.messages().len();
        self.view.push(message);
        // Results that stand in for others come before the message that closes their calls.
        for message in &self.view.messages()[before..] {
            let calls = !message.tool_calls().is_empty();
            if calls {
                self.asked_by = Some(seq);
            }
            self.places.push((seq, self.asked_by.filter(|_| calls || message.is_tool_result())));
        }
    }

    /// The calls that wait for results.
    pub(super) const fn open(&self) -> &OpenCalls {
        self.view.open()
    }

    /// Gives the open calls their constant result.
    pub(super) fn close(&mut self) {
        self.view.close();
        let place = (self.asked_by.unwrap_or_default(), self.asked_by);
        self.places.resize(self.view.messages().len(), place);
    }

    pub(super) fn into_items(self) -> Vec<Item> {
        let items = self.view.into_messages().into_iter().zip(self.places);
        items.map(|(message, (seq, round))| Item { message, seq, round }).collect()
    }
}
