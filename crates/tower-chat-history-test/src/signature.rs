//! Signatures of thinking, which are bound to the prompt.

use tower_chat_history_core::Digest;

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// The prompt of a piece of thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// The digest of instructions, tools, and everything else before the thinking, without other thinking.
    pub(crate) prompt: Digest,
    /// The seal of the thinking before it, if there is any.
    pub(crate) seal: Option<String>,
}

/// The fault of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not a signature of this thinking by this provider.
    Invalid,
    /// It was made for another prompt.
    OtherPrompt,
}

/// Returns the signature of thinking: the prompt's digest, the earlier seal, and its own seal, which is keyed by the
/// secret. The parts tell the reason of a mismatch.
pub(crate) fn sign(secret: Digest, before: &Before, thinking: &str) -> String {
    let earlier = before.seal.clone().unwrap_or_else(|| Digest::default().to_string());
    signed(secret, &before.prompt.to_string(), &earlier, thinking)
}

fn signed(secret: Digest, prompt: &str, earlier: &str, thinking: &str) -> String {
    let parts = [prompt.as_bytes(), earlier.as_bytes(), thinking.as_bytes()];
    let seal = parts.into_iter().fold(secret, |seal, part| seal.then(Digest::of(part)));
    format!("{prompt}{earlier}{}", seal.then(secret))
}

/// Checks a signature, and returns its seal.
pub(crate) fn check<'s>(secret: Digest, signature: &'s str, before: &Before, thinking: &str) -> Result<&'s str, Fault> {
    let part = |at: usize| signature.get(at * DIGITS..(at + 1) * DIGITS);
    let (Some(prompt), Some(earlier), Some(seal)) = (part(0), part(1), part(2)) else { return Err(Fault::Invalid) };
    if signature != signed(secret, prompt, earlier, thinking) {
        return Err(Fault::Invalid);
    }
    // The first thinking of a prompt may have lost the thinking before it.
    let follows = before.seal.as_ref().is_none_or(|last| last == earlier);
    if prompt == before.prompt.to_string() && follows { Ok(seal) } else { Err(Fault::OtherPrompt) }
}

/// Returns the seal of a signature that may be of another prompt.
pub(crate) fn seal(signature: &str) -> Option<&str> {
    signature.get(2 * DIGITS..)
}
