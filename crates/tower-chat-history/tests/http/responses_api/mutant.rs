//! The wire with a fault in its replies.

use bytes::Bytes;
use http::Uri;
use tower_chat_history::{
    Reply,
    adapt::{Flow, FoldReply},
    dialect::Dialect,
    engine::InputMode,
    http::{CallError, Event, OpenedBody, Refusal, ResponsesWire, Wire},
};

const WIRE: ResponsesWire = ResponsesWire::new();

/// A fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mutant {
    /// Reasoning is lost.
    LosesReasoning,
    /// The items are in the reverse order.
    Reverses,
}

/// Returns the wire with this fault.
pub(super) fn wire(mutant: Option<Mutant>) -> &'static dyn Wire {
    match mutant {
        None => &WIRE,
        Some(Mutant::LosesReasoning) => &Mutant::LosesReasoning,
        Some(Mutant::Reverses) => &Mutant::Reverses,
    }
}

impl Mutant {
    fn change(self, mut reply: Reply) -> Reply {
        match self {
            Self::LosesReasoning => reply.messages.retain(|item| !item.json().contains(r#""type":"reasoning""#)),
            Self::Reverses => reply.messages.reverse(),
        }
        reply
    }
}

impl Wire for Mutant {
    fn dialect(&self) -> &'static dyn Dialect {
        WIRE.dialect()
    }

    fn provider(&self, uri: &Uri) -> &'static str {
        WIRE.provider(uri)
    }

    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
        WIRE.open(body, mode, few_shot_messages)
    }

    fn reply(&self, body: &[u8]) -> Reply {
        self.change(WIRE.reply(body))
    }

    fn fold(&self, choices: usize) -> Box<dyn FoldReply<Event>> {
        Box::new(Fold { fold: WIRE.fold(choices), mutant: *self })
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        WIRE.refusal(refusal)
    }
}

struct Fold {
    fold: Box<dyn FoldReply<Event>>,
    mutant: Mutant,
}

impl FoldReply<Event> for Fold {
    fn push(&mut self, event: &Event) -> Flow {
        self.fold.push(event)
    }

    fn is_complete(&self) -> bool {
        self.fold.is_complete()
    }

    fn is_whole(&self) -> bool {
        self.fold.is_whole()
    }

    fn reply(&self) -> Reply {
        self.mutant.change(self.fold.reply())
    }

    fn partial(&self) -> Option<Reply> {
        self.fold.partial().map(|reply| self.mutant.change(reply))
    }
}
