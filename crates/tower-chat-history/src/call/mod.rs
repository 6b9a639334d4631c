//! The values of one call: its scope, its input and options, and the model's reply.

mod fold;
mod in_conversation;
mod input;
mod options;
mod read_by;
mod reply;
mod scope;

pub(crate) use self::options::Stored;
pub use self::{
    fold::{Flow, FoldReply},
    in_conversation::InConversation,
    input::TurnInput,
    options::CallOptions,
    read_by::ReadBy,
    reply::Reply,
    scope::CallScope,
};
