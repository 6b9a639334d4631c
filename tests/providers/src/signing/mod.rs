//! A provider that signs its reasoning, and refuses a prompt in which a signature does not fit. It has a message format
//! of its own, [`SigningDialect`], with all difficulties that real formats have.
//!
//! [`SigningProvider`] checks each prompt and makes the next reply. It needs no network, no clock and no randomness. A
//! program that keeps a conversation passes if the provider never returns a [`Refusal`], and keeps as much reasoning as
//! possible if [`SignedCounts::missing`] stays small.
//!
//! # Elements
//!
//! | element | speaker and contents |
//! |---|---|
//! | `{"from":"system","text":".."}` | instructions, only before all others |
//! | `{"from":"user","text":".."}` | the user |
//! | `{"from":"user","results":[{"to":"x","kind":"f","text":".."}]}` | results of calls, optionally with a text of the user |
//! | `{"from":"model","text":".."}` | a text of the model |
//! | `{"from":"model","call":{"id":"x","kind":"g","name":"..","input":".."}}` | a call. Ids of the kinds `f` and `g` are separate |
//! | `{"from":"model","thinking":"..","signature":".."}` | signed reasoning, optionally with a text |
//! | `{"from":"model","plan":"..","next":true}` | reasoning that must be followed by another element of the reply |
//! | `{"from":"model","sealed":"..","by":"name"}` | reasoning that only this provider can read |
//! | `{"from":"model","sealed":"..","by":"name","compacts":true}` | the same, and it stands for everything before it |
//! | any other value of `from` | an element of an unknown kind, which is allowed everywhere |
//!
//! A reply is a list of elements. A field `mark` is allowed in all elements, and signatures do not cover it.
//!
//! # Example
//!
//! ```
//! use tower_chat_history_core::{Digest, Message, Role};
//! use test_providers::signing::{Refusal, Say, SigningDialect, SigningProvider};
//!
//! let mut provider = SigningProvider::new("acme");
//! let head = Digest::of(b"instructions and tools");
//! let mut prompt = vec![Message::compose(&SigningDialect, &Role::User, "Hi!")?];
//! prompt.extend(provider.reply(head, &prompt, &[Say::Thought("Hm".into()), Say::Text("Hello!".into())])?);
//! prompt.push(Message::compose(&SigningDialect, &Role::User, "And now?")?);
//! assert_eq!(provider.check(head, &prompt), Ok(()));
//!
//! // Without the first message, the signature no longer fits.
//! assert_eq!(provider.check(head, &prompt[1..]), Err(Refusal::InvalidSignature { position: 0 }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod dialect;
mod element;
mod fields;
mod pairing;
mod provider;
mod refusal;
mod say;

pub use self::{
    dialect::SigningDialect,
    provider::{SignedCounts, SigningProvider},
    refusal::Refusal,
    say::Say,
};
