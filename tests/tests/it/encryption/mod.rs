//! Encrypted conversations over every store.

mod plaintext;
mod recall;
mod rows;
