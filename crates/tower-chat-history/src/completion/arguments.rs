//! Detecting the end of streamed function arguments.

use std::borrow::Cow;

/// The state of a function's arguments: it tracks the nesting of their JSON to know when it is complete.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arguments {
    depth: u32,
    in_text: bool,
    after_backslash: bool,
    closed: bool,
}

impl Arguments {
    /// Adds a piece, given as a JSON value.
    pub(super) fn push(&mut self, piece: &str) {
        if !piece.starts_with('"') {
            // Some providers send an object or a list instead of a string. It is never split.
            self.closed = true;
        } else if let Ok(text) = serde_json::from_str::<Cow<'_, str>>(piece) {
            text.bytes().for_each(|byte| self.push_byte(byte));
        }
    }

    const fn push_byte(&mut self, byte: u8) {
        if self.in_text {
            match byte {
                _ if self.after_backslash => self.after_backslash = false,
                b'\\' => self.after_backslash = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                self.closed = false;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.closed = self.depth == 0;
            }
            _ => {}
        }
    }

    pub(super) const fn are_complete(self) -> bool {
        self.closed
    }
}
