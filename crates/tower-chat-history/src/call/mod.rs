//! The values of one call: where it belongs, what it asks for, and what the model answered.

mod fold;
mod in_conversation;
mod input;
mod options;
mod reply;
mod scope;

pub(crate) use self::options::Stored;
pub use self::{
    fold::{Flow, FoldReply},
    in_conversation::InConversation,
    input::TurnInput,
    options::CallOptions,
    reply::Reply,
    scope::CallScope,
};
