//! The provider: it checks prompts and makes signed replies.

use std::collections::HashSet;

use tower_chat_history_core::{Dialect, Digest, Message};

use super::{
    dialect::SigningDialect,
    element::{Element, Known},
    pairing,
    refusal::Refusal,
    say::Say,
};

/// A provider that signs its reasoning, for one conversation. See the [module docs](super).
///
/// A signature covers the prompt's head, all elements before its own one, and the reasoning. An element that only lacks
/// its reasoning is accepted, but all signatures after it were then made for another prompt.
///
/// ```
/// use tower_chat_history_core::{Digest, Message, Role};
/// use test_providers::signing::{Say, SigningDialect, SigningProvider};
///
/// let mut provider = SigningProvider::new("acme");
/// let head = Digest::of(b"instructions and tools");
/// let hi = Message::compose(&SigningDialect, &Role::User, "Hi!")?;
/// let thought = provider.reply(head, &[hi.clone()], &[Say::ThoughtAndText("Hm".into(), "Hello!".into())])?;
///
/// let Some(unbound) = thought[0].unbound() else { panic!("the text remains") };
/// provider.reply(head, &[hi, unbound.clone()], &[Say::Text("Anything else?".into())])?;
/// assert_eq!((provider.counts().sent, provider.counts().missing), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SigningProvider {
    name: String,
    secret: Digest,
    checks_signatures: bool,
    /// The signatures of its replies.
    made: HashSet<String>,
    counts: SignedCounts,
}

/// The numbers of elements with signed reasoning in the prompts that a [`SigningProvider`] accepted for a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedCounts {
    /// The number of such elements in all prompts. An element counts once for each prompt.
    pub sent: u64,
    /// The number of such elements that the provider had made before the prompt, and that were missing in it.
    pub missing: u64,
}

impl SigningProvider {
    /// Creates the provider with this name. Its signatures depend on the name, so all providers with one name accept
    /// each other's reasoning.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            secret: Digest::of(name.as_bytes()),
            name,
            checks_signatures: true,
            made: HashSet::new(),
            counts: SignedCounts::default(),
        }
    }

    /// Makes the provider accept all signatures and all sealed reasoning. It then checks only the structure of prompts.
    #[must_use]
    pub const fn without_signatures(mut self) -> Self {
        self.checks_signatures = false;
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the numbers of signed elements in the prompts that were accepted for a [`reply`](Self::reply).
    #[must_use]
    pub const fn counts(&self) -> SignedCounts {
        self.counts
    }

    /// Checks a prompt. `head` is the digest of instructions and tools, and `sent` has the elements as they are sent.
    ///
    /// # Errors
    ///
    /// Returns the first fault of the structure, or if there is none, the first fault of signatures and seals.
    pub fn check(&self, head: Digest, sent: &[Message]) -> Result<(), Refusal> {
        self.read(head, sent).map(|_| ())
    }

    /// Checks a prompt and returns the elements of the scripted reply, with signatures.
    ///
    /// # Errors
    ///
    /// Returns the error of [`check`](Self::check). The counts then stay as they are.
    pub fn reply(&mut self, head: Digest, sent: &[Message], script: &[Say]) -> Result<Vec<Message>, Refusal> {
        let Accepted { mut digest, signatures } = self.read(head, sent)?;
        self.counts.sent += signatures.len() as u64;
        let kept: HashSet<&String> = signatures.iter().collect();
        self.counts.missing += self.made.iter().filter(|made| !kept.contains(made)).count() as u64;
        let mut reply = Vec::with_capacity(script.len());
        for (position, say) in (sent.len()..).zip(script) {
            let signature = self.sign(digest, say.thinking().unwrap_or_default());
            let json = say.json(signature, &self.name);
            digest = digest.then(SigningDialect.digest(&json));
            reply.push(Message::in_dialect(&SigningDialect, json).map_err(|_| Refusal::Unreadable { position })?);
            if say.thinking().is_some() {
                self.made.insert(signature.to_string());
            }
        }
        Ok(reply)
    }

    fn read(&self, head: Digest, sent: &[Message]) -> Result<Accepted, Refusal> {
        let read = |(position, message): (usize, &Message)| {
            Element::read(message.json()).map_err(|_| Refusal::Unreadable { position })
        };
        let elements: Vec<Element> = sent.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        pairing::check(&elements)?;
        let mut accepted = Accepted { digest: head, signatures: Vec::new() };
        for (position, (message, Element { known, .. })) in sent.iter().zip(elements).enumerate() {
            let signature = self.check_reasoning(position, accepted.digest, known)?;
            accepted.signatures.extend(signature);
            accepted.digest = accepted.digest.then(SigningDialect.digest(message.json()));
        }
        Ok(accepted)
    }

    /// Checks the reasoning of an element, and returns its signature if there is one. `before` is the digest of the
    /// head and all elements before it.
    fn check_reasoning(&self, position: usize, before: Digest, known: Known) -> Result<Option<String>, Refusal> {
        if self.checks_signatures && known.sealed.is_some() && known.by.as_ref() != Some(&self.name) {
            return Err(Refusal::ForeignSeal { position });
        }
        let Some(thinking) = known.thinking else { return Ok(None) };
        let expected = self.sign(before, &thinking).to_string();
        if self.checks_signatures && known.signature.as_ref() != Some(&expected) {
            return Err(Refusal::InvalidSignature { position });
        }
        Ok(known.signature)
    }

    fn sign(&self, before: Digest, thinking: &str) -> Digest {
        self.secret.then(before).then(Digest::of(thinking.as_bytes()))
    }
}

/// A prompt that is accepted.
struct Accepted {
    /// The digest of the head and all elements.
    digest: Digest,
    /// The signatures in it.
    signatures: Vec<String>,
}
