//! Folding the events of chat completions into a reply.

use crate::{
    adapt::{Flow, FoldReply, completion::ChunkFold},
    call::Reply,
    http::sse::Event,
};

/// The fold that all adapters share, with the data of events as its input.
#[derive(Debug)]
pub(super) struct ChatFold {
    fold: ChunkFold,
    /// True if `[DONE]` has come.
    done: bool,
}

impl ChatFold {
    pub(super) fn new(choices: usize) -> Self {
        Self { fold: ChunkFold::new(choices), done: false }
    }
}

impl FoldReply<Event> for ChatFold {
    fn push(&mut self, event: &Event) -> Flow {
        if self.done || event.name() == b"keepalive" {
            return Flow::Pass;
        }
        if event.data().trim_ascii() == b"[DONE]" {
            self.done = true;
            return Flow::Hold;
        }
        match std::str::from_utf8(event.data()) {
            Ok(chunk) if event.name() != b"error" => self.fold.push_json(chunk),
            Ok(_) | Err(_) => self.fold.fail(),
        }
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        self.fold.is_complete()
    }

    fn is_whole(&self) -> bool {
        self.fold.is_whole()
    }

    fn reply(&self) -> Reply {
        self.fold.reply()
    }

    fn partial(&self) -> Option<Reply> {
        self.fold.partial()
    }
}
