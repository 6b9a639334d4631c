//! Wires of Messages with a fault, which the provider must notice.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Method, Uri};
use tower_chat_history::{
    HistoryOptions, Message, Reply,
    adapt::FoldReply,
    dialect::{AnthropicMessages, Dialect},
    engine::InputMode,
    http::{CallError, Event, HttpHistory, MessagesWire, OpenedBody, Refusal, Routes, Wire},
};

use super::Chat;

/// A fault in the window that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The first message is left out, although the thinking after it is sent.
    LosesTheFirst,
    /// The texts of the first message change, although the thinking after it is sent.
    EditsTheFirst,
    /// The last message, which may have calls, is left out.
    LosesTheLast,
}

impl Mutant {
    pub(super) const ALL: [Self; 3] = [Self::LosesTheFirst, Self::EditsTheFirst, Self::LosesTheLast];

    /// Returns a conversation over a wire with this fault.
    pub(super) fn chat(self, options: HistoryOptions) -> Chat {
        static WIRES: [MutantWire; 3] =
            [MutantWire(Mutant::ALL[0]), MutantWire(Mutant::ALL[1]), MutantWire(Mutant::ALL[2])];
        let wire = WIRES.iter().find(|wire| wire.0 == self).unwrap();
        let routes = Routes::none().route(|_: &Method, uri: &Uri| uri.path() == "/v1/messages", wire);
        Chat::by(HttpHistory::new().routes(routes), options)
    }

    fn write(self, window: &[Message]) -> Vec<Cow<'_, str>> {
        // Of the marks for the cache, too many would be a fault of their own.
        let mut written: Vec<Cow<'_, str>> = Vec::new();
        for message in window {
            let unmarked = AnthropicMessages::without_cache_marks(message);
            written.push(unmarked.map_or(Cow::Borrowed(message.json()), Cow::Owned));
        }
        match self {
            // A message of one role is always left.
            Self::LosesTheFirst if written.len() > 2 => drop(written.remove(0)),
            Self::EditsTheFirst => written[0] = Cow::Owned(written[0].replace("and ", "but ")),
            Self::LosesTheLast if written.len() > 1 => drop(written.pop()),
            Self::LosesTheFirst | Self::LosesTheLast => {}
        }
        written
    }
}

#[derive(Debug)]
struct MutantWire(Mutant);

impl Wire for MutantWire {
    fn dialect(&self) -> &'static dyn Dialect {
        MessagesWire::new().dialect()
    }

    fn provider(&self, uri: &Uri) -> &'static str {
        MessagesWire::new().provider(uri)
    }

    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
        let mut opened = MessagesWire::new().open(body, mode, few_shot_messages)?;
        let mutant = self.0;
        opened.splice = opened.splice.write_window(move |window| mutant.write(window));
        Ok(opened)
    }

    fn reply(&self, body: &[u8]) -> Reply {
        MessagesWire::new().reply(body)
    }

    fn fold(&self, choices: usize) -> Box<dyn FoldReply<Event>> {
        MessagesWire::new().fold(choices)
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        MessagesWire::new().refusal(refusal)
    }
}
