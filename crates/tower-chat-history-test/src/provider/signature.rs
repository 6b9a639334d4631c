//! Signatures of thinking, which are bound to the prompt.

use tower_chat_history_core::Digest;

use super::thought::Thought;

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 32;

/// The prompt of a piece of thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// The digest of the tools and of all messages before the thinking, without their thinking.
    pub(super) prompt: Digest,
    /// The seal of the thinking before it, if there is any.
    pub(super) seal: Option<String>,
}

/// The fault of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not a signature of this thinking.
    Invalid,
    /// It was made for another prompt.
    OtherPrompt,
}

/// Returns the signature of a thought: the prompt's digest, the earlier seal and its own seal. The parts tell the
/// reason of a mismatch.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn sign(before: &Before, thought: &Thought) -> String {
    let earlier = before.seal.clone().unwrap_or_else(|| Digest::default().to_string());
    signed(&before.prompt.to_string(), &earlier, thought)
}

fn signed(prompt: &str, earlier: &str, thought: &Thought) -> String {
    let kind: &[u8] = match thought {
        Thought::Text(_) => b"claude",
        Thought::Redacted => b"claude, redacted",
    };
    let parts = [prompt.as_bytes(), earlier.as_bytes(), thought.text().as_bytes()];
    let seal = parts.into_iter().fold(Digest::of(kind), |seal, part| seal.then(Digest::of(part)));
    format!("{prompt}{earlier}{seal}")
}

/// Checks a signature, and returns its seal.
pub(super) fn check<'s>(signature: &'s str, before: &Before, thought: &Thought) -> Result<&'s str, Fault> {
    let part = |at: usize| signature.get(at * DIGITS..(at + 1) * DIGITS);
    let (Some(prompt), Some(earlier), Some(seal)) = (part(0), part(1), part(2)) else { return Err(Fault::Invalid) };
    if signature != signed(prompt, earlier, thought) {
        return Err(Fault::Invalid);
    }
    // The first thinking of a prompt may have lost the thinking before it.
    let follows = before.seal.as_ref().is_none_or(|last| last == earlier);
    if prompt == before.prompt.to_string() && follows { Ok(seal) } else { Err(Fault::OtherPrompt) }
}

/// Returns the seal of a signature that may be of another prompt.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn seal(signature: &str) -> Option<&str> {
    signature.get(2 * DIGITS..)
}
