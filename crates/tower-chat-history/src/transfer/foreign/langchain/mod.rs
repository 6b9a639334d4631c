//! The messages of LangChain.

mod message;
mod redis;

pub(super) use self::message::read;
pub use self::redis::LangChainRedis;
