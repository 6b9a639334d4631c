//! Encrypted conversations over every store.

mod killed;
mod plaintext;
