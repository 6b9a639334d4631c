//! Encrypted conversations over every store.

mod killed;
mod plaintext;
mod recall;
mod rows;
